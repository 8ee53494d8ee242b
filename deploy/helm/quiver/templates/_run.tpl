{{- /* What runs on a node. */ -}}
{{- define "quiver.run" -}}
initContainers:
  # Whether this machine is fit, seen with the same eyes as quiverd's: if not, its log says what to do.
  - name: doctor
    image: {{ include "quiver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [quiver, doctor]
    {{- include "quiver.may" (list "NET_ADMIN" "NET_RAW" "SYS_ADMIN" "IPC_LOCK") | nindent 4 }}
    volumeMounts:
      - {name: state, mountPath: /var/lib/quiver}
      - {name: sockets, mountPath: /run/quiver}
      - {name: tun, mountPath: /dev/net/tun}
  - name: install
    image: {{ include "quiver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [quiver-agent, --install, --cni-plugins=/host/plugins, --cni-networks=/host/networks]
    {{- include "quiver.may" (list) | nindent 4 }}
    volumeMounts:
      - {name: plugins, mountPath: /host/plugins}
      - {name: networks, mountPath: /host/networks}
      - {name: configuration, mountPath: /etc/quiver, readOnly: true}
containers:
  - name: quiverd
    image: {{ include "quiver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [quiverd]
    # NET_ADMIN: pods' devices; SYS_ADMIN: entering pods' network namespaces; NET_RAW: AF_PACKET; IPC_LOCK: huge pages.
    {{- include "quiver.may" (list "NET_ADMIN" "NET_RAW" "SYS_ADMIN" "IPC_LOCK") | nindent 4 }}
    {{- with include "quiver.quiverdPort" . }}
    ports:
      - {name: quiverd-metrics, containerPort: {{ . }}}
    {{- end }}
    resources:
      {{- toYaml .Values.quiverd.resources | nindent 6 }}
    livenessProbe:
      exec:
        command: [quiver, show, version]
      initialDelaySeconds: 30
      periodSeconds: 20
      timeoutSeconds: 10
      failureThreshold: 3
    volumeMounts:
      - {name: configuration, mountPath: /etc/quiver, readOnly: true}
      - {name: state, mountPath: /var/lib/quiver}
      - {name: sockets, mountPath: /run/quiver}
      - {name: tun, mountPath: /dev/net/tun}
      - {name: namespaces, mountPath: /run/netns, mountPropagation: HostToContainer, readOnly: true}
  - name: quiver-agent
    image: {{ include "quiver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - quiver-agent
      - --mtu={{ .Values.agent.mtu | int }}
      {{- /* (A release before this value was there has none: --reuse-values.) */}}
      {{- $overlay := default "none" .Values.agent.overlay }}
      {{- if not (has $overlay (list "none" "vxlan" "cross-subnet")) }}
      {{- fail (printf "agent.overlay: %v: take none, vxlan or cross-subnet" $overlay) }}
      {{- end }}
      - --overlay={{ $overlay }}
      {{- if ne $overlay "none" }}
      - --overlay-port={{ default 4789 .Values.agent.overlayPort | int }}
      - --overlay-vni={{ if hasKey .Values.agent "overlayVNI" }}{{ .Values.agent.overlayVNI | int }}{{ else }}4096{{ end }}
      {{- end }}
      {{- $uplink := default "kernel" .Values.agent.uplink }}
      {{- if not (has $uplink (list "kernel" "af_packet")) }}
      {{- fail (printf "agent.uplink: %v: take kernel or af_packet" $uplink) }}
      {{- end }}
      {{- if and (ne $uplink "kernel") (ne $overlay "none") }}
      {{- fail (printf "agent.uplink: %v: not with agent.overlay: %v, whose packets go through the hosts' kernels" $uplink $overlay) }}
      {{- end }}
      {{- if ne $uplink "kernel" }}
      - --uplink={{ $uplink }}
      {{- end }}
      {{- with .Values.agent.uplinkInterface }}
      - --uplink-interface={{ . }}
      {{- end }}
      - --host-device={{ .Values.agent.hostDevice }}
      - --health={{ include "quiver.healthHost" . }}:{{ .Values.agent.healthPort | int }}
      - --services={{ .Values.agent.services }}
      - --policies={{ .Values.agent.policies }}
      - --settings=/etc/quiver/agent.yaml
    env:
      - name: NODE_NAME
        valueFrom:
          fieldRef:
            fieldPath: spec.nodeName
      {{- if eq (include "quiver.healthAddress" .) "node" }}
      - name: NODE_ADDRESS
        valueFrom:
          fieldRef:
            fieldPath: status.hostIP
      {{- end }}
    envFrom:
      # Where there is no kube-proxy: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
      - configMapRef:
          name: quiver-api-server
          optional: true
    # NET_ADMIN: routes to other nodes and Services, node ports, tunnels' way through the host, translation of what leaves the cluster; SYS_ADMIN: looking into pods' namespaces for CNI's CHECK; NET_RAW: the ping of readiness.
    {{- include "quiver.may" (list "NET_ADMIN" "NET_RAW" "SYS_ADMIN") | nindent 4 }}
    {{- if ne (include "quiver.healthAddress" .) "127.0.0.1" }}
    ports:
      - {name: agent-metrics, containerPort: {{ .Values.agent.healthPort | int }}}
    {{- end }}
    resources:
      {{- toYaml .Values.agent.resources | nindent 6 }}
    livenessProbe:
      httpGet: { {{- include "quiver.probeHost" . -}} port: {{ .Values.agent.healthPort | int }}, path: /livez}
      initialDelaySeconds: 10
      periodSeconds: 20
      timeoutSeconds: 10
      failureThreshold: 3
    # That it forwards: its pods' packets go through this node's quiverd.
    readinessProbe:
      httpGet: { {{- include "quiver.probeHost" . -}} port: {{ .Values.agent.healthPort | int }}, path: /readyz}
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 2
    volumeMounts:
      - {name: state, mountPath: /var/lib/quiver}
      - {name: sockets, mountPath: /run/quiver}
      - {name: namespaces, mountPath: /run/netns, mountPropagation: HostToContainer, readOnly: true}
      - {name: settings, mountPath: /etc/quiver, readOnly: true}
      - {name: api-server, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
volumes:
  {{- include "quiver.volumes" . | nindent 2 }}
  - {name: state, hostPath: {path: /var/lib/quiver, type: DirectoryOrCreate}}
  - {name: sockets, hostPath: {path: /run/quiver, type: DirectoryOrCreate}}
  - {name: namespaces, hostPath: {path: /run/netns, type: DirectoryOrCreate}}
  - {name: settings, configMap: {name: quiver-agent}}
  - name: api-server
    projected:
      sources:
        - serviceAccountToken: {path: token}
        - configMap:
            name: kube-root-ca.crt
            items: [{key: ca.crt, path: ca.crt}]
        # Nobody reads it here: but what is mounted kubelet keeps in mind, and what is for the environment alone it asks the API server for,
        # which may be down when the container has to be started again.
        - configMap: {name: quiver-api-server, optional: true}
{{- end }}

{{- /* What running and uninstalling both need of a node. */ -}}
{{- define "quiver.volumes" -}}
- {name: configuration, configMap: {name: quiver}}
- {name: tun, hostPath: {path: /dev/net/tun, type: CharDevice}}
- {name: plugins, hostPath: {path: {{ .Values.cni.plugins }}, type: DirectoryOrCreate}}
- {name: networks, hostPath: {path: {{ .Values.cni.networks }}, type: DirectoryOrCreate}}
{{- end }}

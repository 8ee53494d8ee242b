{{- /* What takes everything away from a node. It is ready, and stays so, when nothing is left. */ -}}
{{- define "quiver.uninstall" -}}
containers:
  - name: uninstall
    image: {{ include "quiver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - quiver-agent
      - --uninstall
      - --start-quiverd=/usr/bin/quiverd
      - --cni-plugins=/host/plugins
      - --cni-networks=/host/networks
      - --health=127.0.0.1:{{ .Values.agent.healthPort | int }}
      - --stay
    {{- include "quiver.may" (list "NET_ADMIN" "NET_RAW" "SYS_ADMIN" "IPC_LOCK") | nindent 4 }}
    readinessProbe:
      httpGet: {host: 127.0.0.1, port: {{ .Values.agent.healthPort | int }}, path: /readyz}
      periodSeconds: 2
      timeoutSeconds: 5
    volumeMounts:
      - {name: configuration, mountPath: /etc/quiver, readOnly: true}
      - {name: tun, mountPath: /dev/net/tun}
      - {name: plugins, mountPath: /host/plugins}
      - {name: networks, mountPath: /host/networks}
      # Also the directories themselves go.
      - {name: lib, mountPath: /var/lib}
      - {name: run, mountPath: /run, mountPropagation: HostToContainer}
volumes:
  {{- include "quiver.volumes" . | nindent 2 }}
  - {name: lib, hostPath: {path: /var/lib, type: Directory}}
  - {name: run, hostPath: {path: /run, type: Directory}}
{{- end }}

{{- define "quiver.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "quiver.labels" -}}
app.kubernetes.io/name: quiver
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* What every container here may at most: its capabilities are the argument. */ -}}
{{- define "quiver.may" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    {{- with . }}
    add: [{{ join ", " . }}]
    {{- end }}
{{- end }}

{{- /* Where agents answer, as the value says it. (An older chart's values haven't got it.) */ -}}
{{- define "quiver.healthAddress" -}}
{{- $address := default "127.0.0.1" .Values.agent.healthAddress -}}
{{- if not (has $address (list "127.0.0.1" "node" "0.0.0.0" "::")) -}}
{{- fail (printf "agent.healthAddress: %v: take 127.0.0.1, node, 0.0.0.0 or ::" $address) -}}
{{- end -}}
{{- $address -}}
{{- end }}

{{- /* The same as a host beside a port. */ -}}
{{- define "quiver.healthHost" -}}
{{- $address := include "quiver.healthAddress" . -}}
{{- if eq $address "node" -}}[$(NODE_ADDRESS)]{{- else if contains ":" $address -}}[{{ $address }}]{{- else -}}{{ $address }}{{- end -}}
{{- end }}

{{- /* Where kubelet asks: without a host, at the node's address. */ -}}
{{- define "quiver.probeHost" -}}
{{- if ne (include "quiver.healthAddress" .) "node" -}}host: 127.0.0.1, {{ end -}}
{{- end }}

{{- /* The port of quiverd's metrics; empty: they aren't for others than the node's own processes. */ -}}
{{- define "quiver.quiverdPort" -}}
{{- $listen := regexFind `(?m)^[ \t]*listen[ \t]*=[ \t]*["'][^"'\n]*:[0-9]+["']` .Values.quiverd.settings -}}
{{- if and $listen (not (regexMatch `["'](127\.|localhost:|\[::1\])` $listen)) -}}
{{- regexFind `[0-9]+["']$` $listen | trimAll `"'` -}}
{{- end -}}
{{- end }}

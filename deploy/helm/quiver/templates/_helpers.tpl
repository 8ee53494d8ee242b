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

{{- define "fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 63 }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 }}{{ end -}}
{{- end }}
{{- define "provisioner" -}}
{{- if .Values.storageClass.provisionerName }}{{ .Values.storageClass.provisionerName }}{{ else }}cluster.local/{{ include "fullname" . }}{{ end -}}
{{- end }}

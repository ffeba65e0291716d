{{- define "fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}
{{- define "image" -}}
{{- with .image.registry }}{{ . }}/{{ end }}{{ .image.repository }}:{{ .image.tag | default .version -}}
{{- end }}
{{- define "placement" -}}
{{- $global := .global -}}
{{- with .part }}
{{- with .nodeSelector | default $global.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations | default $global.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $global.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

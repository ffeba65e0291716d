{{- /* Secrets of the hub's own: a value that was given, one that is there, or a new one. */}}
{{- define "kept" -}}
{{- $root := index . 0 }}{{ $key := index . 1 }}{{ $given := index . 2 }}
{{- if $given }}{{ $given | b64enc }}
{{- else }}
{{- $old := lookup "v1" "Secret" $root.Release.Namespace "hub" }}
{{- $data := (($old | default dict).data) | default dict }}
{{- if hasKey $data $key }}{{ index $data $key }}{{ else }}{{ randAlphaNum 64 | sha256sum | b64enc }}{{ end }}
{{- end }}
{{- end }}
{{- define "labels" -}}
{app.kubernetes.io/name: jupyterhub, app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .component }}}
{{- end }}
{{- define "extraEnv" -}}
{{- range $name, $value := . }}
{{- if kindIs "map" $value }}
- {{ toJson (merge (dict "name" ($value.name | default $name)) $value) }}
{{- else }}
- {name: {{ $name | quote }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- define "list" -}}
{{- if kindIs "map" . }}{{ values . | toJson }}{{ else }}{{ . | toJson }}{{ end }}
{{- end }}

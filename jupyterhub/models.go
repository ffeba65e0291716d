package jupyterhub

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Models are the language models of the cluster, which notebooks find in their environment and may reach.
type Models struct {
	Namespace string            // of their servers
	URLs      map[string]string // addresses of OpenAI's API, by the model's name
}

// env has MODEL_NAME_URL for each model. A sole one is also what clients of OpenAI's take without being
// told: they want a key, and the servers ask for none. Of several, none is the obvious one.
func (m Models) env() map[string]any {
	v := map[string]any{}
	for name, url := range m.URLs {
		v["MODEL_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_URL"] = url
		if len(m.URLs) == 1 {
			v["OPENAI_BASE_URL"], v["OPENAI_API_KEY"] = url, "none"
		}
	}
	return v
}

// egress lets notebooks reach the servers: otherwise private addresses are closed to them.
func (m Models) egress() []any {
	if len(m.URLs) == 0 {
		return nil
	}
	return []any{map[string]any{"to": []any{map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: m.Namespace}},
	}}}}
}

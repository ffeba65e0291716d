package jupyterhub

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/internal/modelserver"
)

// Models are the language models of the cluster, which notebooks find in their environment and may reach.
type Models struct {
	Namespace string            // of their servers
	URLs      map[string]string // addresses of OpenAI's API, by the model's name
	Gateway   string            // one address for all of them, which asks for a key; empty: there is none
}

// env has MODEL_NAME_URL for each model. A gateway or a sole model is also what clients of OpenAI's take without
// being told: they want a key, which only the gateway asks for. Of several models, none is the obvious one.
func (m Models) env() map[string]any {
	v := map[string]any{}
	for name, url := range m.URLs {
		if m.Gateway != "" {
			url = m.Gateway
		}
		v["MODEL_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_URL"] = url
		if len(m.URLs) == 1 {
			v["OPENAI_BASE_URL"], v["OPENAI_API_KEY"] = url, "none"
		}
	}
	if m.Gateway != "" {
		v["OPENAI_BASE_URL"] = m.Gateway
		v["OPENAI_API_KEY"] = map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": modelserver.NotebooksSecret, "key": modelserver.NotebooksKey}}}
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

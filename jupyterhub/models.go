package jupyterhub

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Models are the language models of the cluster, which notebooks find in their environment and may reach.
type Models struct {
	Namespace string            // of their servers
	URLs      map[string]string // addresses of OpenAI's API, by the model's name
	Gateway   string            // one address for all of them, which asks for a key; empty: there is none
	Keys      []string          // names of keys of the gateway: who has such a name in the hub has the key in notebooks
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
		// KubeSpawner expands the name; one that cannot be a key's gets a hash, and so finds none (kubespawner/slugs.py).
		v[modelserver.NotebooksKey] = map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{
			"name": modelserver.PeopleSecret, "key": "{safe_username}", "optional": true}}}
	}
	return v
}

// container has the key that notebooks share, which stays if env has none: the kubelet takes envFrom first, and
// leaves out what is optional and missing (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables).
func (m Models) container() map[string]any {
	if m.Gateway == "" {
		return nil
	}
	return map[string]any{"envFrom": []any{map[string]any{"secretRef": map[string]any{"name": modelserver.NotebooksSecret}}}}
}

// secrets are the keys. Those of people are copied from the gateway's later.
func (m Models) secrets(namespace string) []chart.Secret {
	if m.Gateway == "" {
		return nil
	}
	out := []chart.Secret{{Namespace: namespace, Name: modelserver.NotebooksSecret, Prefix: modelserver.KeyPrefix, Generate: map[string]int{modelserver.NotebooksKey: 16}}}
	if len(m.Keys) == 0 {
		return out
	}
	people := chart.Secret{Namespace: namespace, Name: modelserver.PeopleSecret, Prefix: modelserver.KeyPrefix, Generate: map[string]int{}}
	for _, name := range m.Keys {
		people.Generate[name] = 16
	}
	return append(out, people)
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

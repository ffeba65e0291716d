package spec

// CheckEmbeddedRegistry reports keys with which K3s does not start if images come from other nodes: it serves those of
// its own containerd (Agent, pkg/agent/run.go).
func (k *K3s) CheckEmbeddedRegistry(r interface {
	Wrong(place any, what, cure string)
}) {
	if !k.EmbeddedRegistry {
		return
	}
	for _, key := range []string{"docker", "container-runtime-endpoint"} {
		for _, config := range []map[string]any{k.ServerConfig, k.AgentConfig} {
			if v, set := config[key]; set && v != false && v != "" {
				r.Wrong(&k.EmbeddedRegistry, "K3s gives other nodes only the images of its own containerd, and "+key+" replaces that", "remove "+key+", or embeddedRegistry")
			}
		}
	}
}

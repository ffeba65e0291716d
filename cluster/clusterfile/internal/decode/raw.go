package decode

import "github.com/cps-gpu/homelab/cluster/spec"

// File is cluster.yaml.
type File struct {
	spec.Spec `yaml:",inline"`
	Defaults  Shape       `yaml:"defaults" doc:"Settings of every node, unless its pool or its own entry overrides them; null unsets."`
	Pools     named[Pool] `yaml:"pools" doc:"Groups of similar nodes, by name."`
	Nodes     named[Node] `yaml:"nodes" doc:"Single nodes by name: further ones, or overrides for nodes of a pool."`
	Hub       *Hub        `yaml:"hub" doc:"JupyterHub."`
}

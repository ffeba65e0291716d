package decode

import "github.com/cps-gpu/homelab/cluster/spec"

// File is cluster.yaml.
type File struct {
	spec.Spec `yaml:",inline"`
	Hub       *Hub `yaml:"hub" doc:"JupyterHub."`
}

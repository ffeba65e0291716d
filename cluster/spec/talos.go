package spec

// NVIDIA's two drivers that Talos builds for each of its releases. Their versions are Talos'.
const (
	TalosLTS        = "lts"
	TalosProduction = "production"
)

// TalosLinux says what machines of a Talos cluster run.
type TalosLinux struct {
	Version string `yaml:"version" absent:"‘v1.13.7’" doc:"The release of Talos, of 1.13. Its images come from Talos' image factory."`
	Release string `yaml:"kubernetes" absent:"‘v1.36.2’" doc:"The release of Kubernetes, which Talos installs."`
	Driver  string `yaml:"driver" enum:"lts,production" absent:"‘production’ with GPUs" doc:"NVIDIA's driver of the nodes with GPUs: ‘lts’ or ‘production’. Its version follows from that of Talos."`

	Kubernetes     `yaml:",inline"`
	Network        string     `yaml:"network" json:",omitempty" absent:"the first card" doc:"Name of the [further card](nodes.md#several-networks) for traffic between nodes: pods, etcd, kubelets. Every node needs it, with a static address."`
	FlannelBackend string     `yaml:"flannelBackend" json:",omitempty" default:"vxlan" enum:"vxlan,none" doc:"‘vxlan’, or ‘none’ if you install another CNI."`
	Recipients     []string   `yaml:"recipients" json:",omitempty" required:"true" doc:"Public keys of age, e.g. ‘age1…’: who can read [the cluster's secrets](talos.md#two-files-beside-clusteryaml) without the API token."`
	Registries     []Registry `yaml:"registries,named" json:",omitempty" doc:"Image registries by name."`
}

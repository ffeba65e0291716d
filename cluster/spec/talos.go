package spec

// NVIDIA's two drivers that Talos builds for each of its releases. Their versions are Talos'.
const (
	TalosLTS        = "lts"
	TalosProduction = "production"
)

// TalosLinux says what machines of a Talos cluster run.
type TalosLinux struct {
	Version    string `yaml:"version" absent:"‘v1.13.7’" doc:"The release of Talos, of 1.13. Its images come from Talos' image factory."`
	Kubernetes string `yaml:"kubernetes" absent:"‘v1.36.2’" doc:"The release of Kubernetes, which Talos installs."`
	Driver     string `yaml:"driver" enum:"lts,production" absent:"‘production’ with GPUs" doc:"NVIDIA's driver of the nodes with GPUs: ‘lts’ or ‘production’. Its version follows from that of Talos."`
}

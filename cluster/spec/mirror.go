package spec

import (
	"net/url"
	"path/filepath"
)

// Mirror is what a cluster has in place of the internet. Registries, AirgapDir, AgentConfig and Charts of a completed
// Spec follow from it, where the file does not have them.
type Mirror struct {
	Registry string    `yaml:"registry" required:"true" doc:"URL of a registry that has every image. Nodes ask no other."`
	Username string    `yaml:"username" doc:"Login; requires ‘password’."`
	Password SecretRef `yaml:"password" doc:"Reference to its password."`
	CAFile   string    `yaml:"ca" absent:"system's" doc:"PEM of its authority."`
	Insecure bool      `yaml:"insecure" doc:"Do not check its certificate."`
	Folder   string    `yaml:"folder" absent:"they come from the internet" doc:"Local folder with the folders ‘k3s’, as for ‘k3s.airgap’, ‘charts’, as for ‘charts.folder’, and ‘nvidia’, the packages of NVIDIA's container toolkit. ‘images:mirror’ fills it."`
	Images   []string  `yaml:"images" json:",omitempty" absent:"none" doc:"Further images for ‘images:mirror’, of pods that homelab does not know: Rancher's further charts, what people type, your own."`
}

// Host is the registry's host, with its port if the URL has one.
func (m *Mirror) Host() string {
	at, err := url.Parse(m.Registry)
	if err != nil {
		return "" // the file's check says it
	}
	return at.Host
}

// K3s is the folder with K3s' files, empty without Folder.
func (m *Mirror) K3s() string { return m.subfolder("k3s") }

// Charts is the folder with charts, empty without Folder.
func (m *Mirror) Charts() string { return m.subfolder("charts") }

// NVIDIA is the folder with the packages of NVIDIA's container toolkit, empty without Folder.
func (m *Mirror) NVIDIA() string { return m.subfolder("nvidia") }

// Fills reports whether ‘images:mirror’ fills a folder.
func (m *Mirror) Fills(folder string) bool {
	return folder != "" && (folder == m.K3s() || folder == m.Charts() || folder == m.NVIDIA())
}

// FilledBy is the end of a sentence that says what fills a folder, empty if nothing does.
func (m *Mirror) FilledBy(folder string) string {
	if !m.Fills(folder) {
		return ""
	}
	return ", or run homelab images:mirror, which fills it"
}

func (m *Mirror) subfolder(name string) string {
	if m == nil || m.Folder == "" {
		return ""
	}
	return filepath.Join(m.Folder, name)
}

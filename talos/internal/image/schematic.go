package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// factory is where images and installers come from.
const factory = "factory.talos.dev"

// Schematic is what an image has beside Talos. It is the part of the factory's own type that machines of homelab
// use (pkg/schematic of siderolabs/image-factory), with its fields in its order, which the hash depends on.
type Schematic struct {
	Customization struct {
		SystemExtensions struct {
			Official []string `yaml:"officialExtensions,omitempty"`
		} `yaml:"systemExtensions,omitempty"`
	} `yaml:"customization"`
}

// For returns the schematic of a node of a completed file.
func For(s *spec.Spec, n spec.Node) Schematic {
	of := []string{"siderolabs/qemu-guest-agent"} // which the machine's identity is read through
	if s.Platform.Storage.Longhorn != nil {
		of = append(of, "siderolabs/iscsi-tools", "siderolabs/util-linux-tools")
	}
	if n.HasGPUs() { // NVIDIA's open modules are for Turing and later
		of = append(of, "siderolabs/nvidia-open-gpu-kernel-modules-"+s.Talos.Driver, "siderolabs/nvidia-container-toolkit-"+s.Talos.Driver)
	}
	slices.Sort(of) // another order is another schematic
	var out Schematic
	out.Customization.SystemExtensions.Official = of
	return out
}

// Extensions are those of a schematic's text, in order.
func Extensions(schematic string) ([]string, error) {
	var s Schematic
	if err := yaml.Unmarshal([]byte(schematic), &s); err != nil {
		return nil, fmt.Errorf("the schematic of a machine's image: %w", err)
	}
	of := s.Customization.SystemExtensions.Official
	slices.Sort(of)
	return of, nil
}

// Text is what the factory is given (POST /schematics), and what it hashes.
func (s Schematic) Text() ([]byte, error) { return yaml.Marshal(s) }

// ID is the factory's name of the schematic.
func (s Schematic) ID() (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", fmt.Errorf("schematic: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Disk is the address of the disk image of a release of Talos (v1.13.7) for VMs with a seed. Proxmox imports no
// compressed image.
func (s Schematic) Disk(release string) (string, error) {
	id, err := s.ID()
	return "https://" + factory + "/image/" + id + "/" + release + "/nocloud-amd64.qcow2", err
}

// Installer is the image that a machine upgrades from. It must be that of the platform nocloud: with the
// plain one a machine loses its seed's network (siderolabs/talos#10949).
func (s Schematic) Installer(release string) (string, error) {
	id, err := s.ID()
	return factory + "/nocloud-installer/" + id + ":" + release, err
}

package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/cps-gpu/homelab/sim/guest"
)

// magic begins the contents of a disk image of Talos. A line with its release follows, and its schematic.
const magic = "QFI\xfb\x00\x00\x00\x03 Talos Linux, played\n"

var diskURL = regexp.MustCompile(`^https://factory\.talos\.dev/image/([0-9a-f]{64})/(v[^/]+)/nocloud-amd64\.qcow2$`)

// Post gives Talos' image factory a schematic.
func (w *World) Post(_ context.Context, _ string, schematic []byte) error {
	sum := sha256.Sum256(schematic)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.schematics[hex.EncodeToString(sum[:])] = bytes.Clone(schematic)
	return nil
}

// Image is a disk image of the factory, which knows those of the schematics that it was given.
func (w *World) Image(url string) ([]byte, error) {
	m := diskURL.FindStringSubmatch(url)
	if m == nil {
		return nil, guest.ErrNotFound
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	schematic, ok := w.schematics[m[1]]
	if !ok {
		return nil, guest.ErrNotFound
	}
	return slices.Concat([]byte(magic+m[2]+"\n"), schematic), nil
}

// open is a machine that boots from an image.
func (w *World) open(image []byte) (*Machine, error) {
	text, ok := bytes.CutPrefix(image, []byte(magic))
	release, schematic, whole := bytes.Cut(text, []byte("\n"))
	if !ok || !whole {
		return nil, errors.New("not an image of Talos")
	}
	return &Machine{world: w, version: string(release), schematic: string(schematic)}, nil
}

// has reports whether the machine's image has an extension.
func (m *Machine) has(extension string) bool {
	return slices.Contains(strings.Fields(m.schematic), "siderolabs/"+extension)
}

// extension is how the factory says what an image was built of (internal/artifacts/schematic.go of
// siderolabs/image-factory). The others are not listed. The world is locked.
func (m *Machine) extension() resource.Resource {
	out := runtime.NewExtensionStatus(runtime.NamespaceName, "0")
	out.TypedSpec().Metadata = extensions.Metadata{Name: "schematic", Version: fmt.Sprintf("%x", sha256.Sum256([]byte(m.schematic))), ExtraInfo: m.schematic}
	return out
}

// drivers are NVIDIA's of the releases of 1.13, by what builds them (nvidia-gpu/vars.yaml of siderolabs/extensions).
func drivers() map[string]string {
	return map[string]string{"production": "595.71.05", "lts": "580.167.08"}
}

// loadDriver loads what the configuration says to load, if the image has it (runtime.KernelModuleSpecController). Containers get
// cards by NVIDIA's runtime, which another extension brings. The world is locked.
func (m *Machine) loadDriver() (usable bool) {
	named := false
	for _, module := range m.config.Machine().Kernel().Modules() {
		named = named || module.Name() == "nvidia"
	}
	if !named || m.pods == nil {
		return false
	}
	for branch, version := range drivers() {
		if !m.has("nvidia-open-gpu-kernel-modules-"+branch) || m.pods.LoadDriver(version) != nil {
			continue
		}
		return m.has("nvidia-container-toolkit-" + branch)
	}
	return false
}

package nvidia

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/remote"
)

// Offer is a driver that Ubuntu's archive has for the cards of a machine.
type Offer struct {
	Driver
	Desktop bool   // of the desktop kind, which conflicts with the server kind that is installed here
	Modules string // the package of its kernel modules, e.g. "linux-modules-nvidia-580-server-open-generic"; empty: none is known
}

// Prebuilt reports whether Canonical has built and signed modules for the machine's kernel.
func (o Offer) Prebuilt() bool { return strings.HasPrefix(o.Modules, "linux-modules-nvidia-") }

// String returns Ubuntu's name of the series.
func (o Offer) String() string {
	if o.Desktop {
		return strings.Replace(o.Driver.String(), "-server", "", 1)
	}
	return o.Driver.String()
}

// offerLine is what "ubuntu-drivers list --gpgpu" prints for a driver (ubuntu-drivers-common,
// command_list of ubuntu-drivers): its package, and that of the modules if one is known.
var offerLine = regexp.MustCompile(`^nvidia-driver-([1-9]\d{2})(-server)?(-open)?(?:, \(kernel modules provided by (\S+)\))?$`)

// parseOffers reads the output of "ubuntu-drivers list --gpgpu". It is in no order, and has
// warnings and other hardware's drivers between, which are left out.
func parseOffers(out string) []Offer {
	var all []Offer
	for _, line := range lines(out) {
		m := offerLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		o := Offer{Desktop: m[2] == "", Modules: m[4]}
		_, _ = fmt.Sscan(m[1], &o.Branch) // three digits
		o.Flavour = Proprietary
		if m[3] != "" {
			o.Flavour = Open
		}
		all = append(all, o)
	}
	return all
}

// offersScript prints nothing where there is no such program, or where it finds no hardware, for
// which it may fail.
const offersScript = "if command -v ubuntu-drivers >/dev/null; then ubuntu-drivers list --gpgpu 2>/dev/null || true; fi"

// observeOffers asks a machine what its archive has for its cards, as of its package lists. It
// is empty without a card, and on machines without ubuntu-drivers, such as Debian's.
func observeOffers(ctx context.Context, r remote.Runner) ([]Offer, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", offersScript)
	if err != nil {
		return nil, fmt.Errorf("ask ubuntu-drivers what it offers: %w", err)
	}
	return parseOffers(string(out)), nil
}

// withheld says why a machine's archive does not have a driver for its cards; empty if it has,
// or if nothing is known.
func withheld(d Driver, offers []Offer, build bool) string {
	server := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { return o.Desktop })
	if len(server) == 0 {
		return ""
	}
	i := slices.IndexFunc(server, func(o Offer) bool { return o.Driver == d })
	switch {
	case i < 0:
		return fmt.Sprintf("the machine's archive does not offer it for its cards; ubuntu-drivers lists %s", seriesList(server))
	case !build && !server[i].Prebuilt():
		why := "the archive has no prebuilt modules of it for the machine's kernel"
		if server[i].Modules != "" {
			why += ", only " + server[i].Modules
		}
		return why
	default:
		return ""
	}
}

// seriesList lists series, the newest first.
func seriesList(offers []Offer) string {
	var names []string
	for _, o := range offers {
		if !slices.Contains(names, o.String()) {
			names = append(names, o.String())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	return strings.Join(names, ", ")
}

var ubuntuKernel = regexp.MustCompile(`^\d[\d.]*-\d+-([a-z][a-z0-9-]*)$`)

// isSpecialKernel reports whether a kernel is of another kind than generic: kvm, aws, lowlatency….
func isSpecialKernel(kernel string) bool {
	m := ubuntuKernel.FindStringSubmatch(kernel)
	return m != nil && m[1] != "generic"
}

// available makes sure, before packages are installed, that the machine's archive has the
// driver for its cards: apt-get says only that it cannot locate a package.
func (r Recipe) available(ctx context.Context, on remote.Runner, s DriverState) error {
	if r.source() != nil {
		return nil
	}
	if kernel := s.NextKernel(); !r.Build && isSpecialKernel(kernel) {
		return &BranchError{Branch: r.Driver.String(),
			Reason: fmt.Sprintf("the machine starts kernel %s, and the prebuilt modules are for kernels of the kind generic", kernel),
			Do:     "install linux-generic there and remove the other kernel, or write mode: dkms"}
	}
	if _, there := s.Packages["nvlsm"]; r.Fabric == NVLink5 && !there {
		return &BranchError{Branch: r.Driver.String(),
			Reason: "the switches between the GPUs are of NVLink 5 and need nvlsm, which only NVIDIA's repositories have",
			Do:     "install nvlsm there, or install the driver yourself and write mode: none"}
	}
	offers, err := observeOffers(ctx, on)
	if err != nil {
		return err
	}
	if why := withheld(r.Driver, offers, r.Build); why != "" {
		return &BranchError{Branch: r.Driver.String(), Reason: why,
			Do: "write one of these in nvidia.driver.branch, or give the machine an archive that has it (guest.apt)"}
	}
	return nil
}

package nvidia

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Vendor is NVIDIA's PCI vendor id.
const Vendor uint16 = 0x10de

// PCIID identifies the kind of a PCI device.
type PCIID struct {
	Vendor, Device       uint16
	SubVendor, SubDevice uint16 // the card's maker; 0 if not known
}

// String returns e.g. "10de:20f1", or "10de:20f1 10de:145f" with the subsystem.
func (p PCIID) String() string {
	s := fmt.Sprintf("%04x:%04x", p.Vendor, p.Device)
	if p.SubVendor != 0 {
		s += fmt.Sprintf(" %04x:%04x", p.SubVendor, p.SubDevice)
	}
	return s
}

// MarshalText returns [PCIID.String].
func (p PCIID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePCIID].
func (p *PCIID) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePCIID(string(b))
	return err
}

// ParsePCIID reads "10de:20f1", "0x10de:0x20f1", either of them followed by a
// space or a colon and the subsystem in the same form, and the form of nvidia-smi,
// "0x20F110DE", in which the device comes first.
func ParsePCIID(s string) (PCIID, error) {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == ' ' })
	if len(parts) == 1 {
		if digits := hexDigits(parts[0]); len(digits) == 8 {
			parts = []string{digits[4:], digits[:4]}
		}
	}
	ids := make([]uint16, 0, 4)
	for _, part := range parts {
		digits := hexDigits(part)
		n, err := strconv.ParseUint(digits, 16, 16)
		if err != nil || len(digits) != 4 {
			return PCIID{}, badID(s)
		}
		ids = append(ids, uint16(n))
	}
	switch len(ids) {
	case 2:
		return PCIID{Vendor: ids[0], Device: ids[1]}, nil
	case 4:
		return PCIID{Vendor: ids[0], Device: ids[1], SubVendor: ids[2], SubDevice: ids[3]}, nil
	default:
		return PCIID{}, badID(s)
	}
}

func hexDigits(s string) string { return strings.TrimPrefix(strings.ToLower(s), "0x") }

func badID(s string) error {
	return fmt.Errorf("PCI id %q: want vendor:device in hexadecimal, such as 10de:20f1", s)
}

// Architecture is a generation of chips, in NVIDIA's words.
type Architecture string

// The architectures of the embedded table, oldest first.
const (
	Older     Architecture = "Kepler or older" // which the table does not list one by one
	Kepler    Architecture = "Kepler"
	Maxwell   Architecture = "Maxwell"
	Pascal    Architecture = "Pascal"
	Volta     Architecture = "Volta"
	Turing    Architecture = "Turing"
	Ampere    Architecture = "Ampere"
	Ada       Architecture = "Ada Lovelace"
	Hopper    Architecture = "Hopper"
	Blackwell Architecture = "Blackwell"
)

// OpenModules says whether a chip works with the open kernel modules.
type OpenModules int

const (
	OpenSupported   OpenModules = iota // either flavour, open recommended
	OpenRequired                       // only the open modules support the chip
	OpenUnsupported                    // only the proprietary modules support the chip
)

// GPU is a kind of GPU.
type GPU struct {
	ID           PCIID
	Name         string
	Architecture Architecture
	Open         OpenModules
	MinBranch    int // first driver branch that supports the chip; 0: every branch that is still supported
	LastBranch   int // last driver branch that supports the chip; 0: no end yet
	MIGInstances int // most instances the chip can be divided into; 0: not at all
}

// String returns e.g. "NVIDIA A100-PCIE-40GB (Ampere)".
func (g GPU) String() string {
	name := cmp.Or(g.Name, g.ID.String())
	if g.Architecture == "" {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, g.Architecture)
}

// UnsupportedReason says why no branch that NVIDIA still supports works with a GPU, or nothing.
func UnsupportedReason(id PCIID) string {
	g, known := Lookup(id)
	if last, _ := find(g.LastBranch); known && last.Ended {
		return fmt.Sprintf("no supported driver works with it: branch %d is the last", last.Number)
	}
	return ""
}

// firstMaxwell is the lowest device id of a GPU from Maxwell on; the table has no consumer cards
// below it (pci.ids of 2026-08-22).
const firstMaxwell = 0x1340

// Lookup finds a GPU by vendor and device id. Its name is empty for a card that is too old for the
// table.
func Lookup(id PCIID) (GPU, bool) {
	m, known := lookup(id)
	return m.GPU, known
}

// GPUs returns every GPU of the table, by device id.
func GPUs() []GPU {
	var all []GPU
	for _, m := range models() {
		all = append(all, m.GPU)
	}
	return all
}

func lookup(id PCIID) (model, bool) {
	if id.Vendor != Vendor {
		return model{}, false
	}
	all := models()
	if i, found := slices.BinarySearchFunc(all, id.Device, func(m model, device uint16) int { return cmp.Compare(m.ID.Device, device) }); found {
		m := all[i]
		m.ID = id
		return m, true
	}
	if id.Device >= firstMaxwell {
		return model{}, false
	}
	g := GPU{ID: id, Architecture: Older}
	g.applyArchitecture(false)
	return model{GPU: g}, true
}

// tsv is made from NVIDIA's published lists by TestTable with -update; its first
// line names the sources.
//
//go:embed gpus.tsv
var tsv string

// columns of the table; a dash or nothing is zero.
const (
	colDevice = iota
	colArchitecture
	colOpen // "required" if the architecture alone does not imply it
	colMinBranch
	colMIG
	colName
	columns
)

// model is a GPU of the table, and the words of each of its names.
type model struct {
	GPU
	names [][]string
}

// models is the embedded table by device id, parsed once.
var models = sync.OnceValue(func() []model {
	all, _ := parseTable(tsv) // a test reads every line of it
	return all
})

func parseTable(text string) ([]model, error) {
	var all []model
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		g, err := parseGPU(line)
		if err != nil {
			return nil, fmt.Errorf("GPU table: line %d: %w", n+1, err)
		}
		all = append(all, model{g, namesOf(g.Name)})
	}
	return all, nil
}

func parseGPU(line string) (GPU, error) {
	col := strings.Split(line, "\t")
	if len(col) != columns {
		return GPU{}, fmt.Errorf("%d columns, want %d", len(col), columns)
	}
	device, err1 := strconv.ParseUint(col[colDevice], 16, 16)
	minBranch, err2 := number(col[colMinBranch])
	mig, err3 := number(col[colMIG])
	if err := errors.Join(err1, err2, err3); err != nil {
		return GPU{}, err
	}
	g := GPU{
		ID:           PCIID{Vendor: Vendor, Device: uint16(device)},
		Name:         col[colName],
		Architecture: Architecture(col[colArchitecture]),
		MinBranch:    minBranch,
		MIGInstances: mig,
	}
	g.applyArchitecture(col[colOpen] == "required")
	return g, nil
}

func number(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.Atoi(s)
}

// applyArchitecture fills in the columns that follow from the architecture. Source: README.md of
// NVIDIA/open-gpu-kernel-modules, and NVIDIA's table of supported drivers.
func (g *GPU) applyArchitecture(openRequired bool) {
	switch g.Architecture {
	case Older, Kepler:
		g.Open, g.LastBranch = OpenUnsupported, 470
	case Maxwell, Pascal, Volta:
		g.Open, g.LastBranch = OpenUnsupported, 580
	case Blackwell:
		g.Open, g.MinBranch = OpenRequired, max(g.MinBranch, 570)
	default:
		if openRequired { // Grace Hopper
			g.Open = OpenRequired
		}
	}
}

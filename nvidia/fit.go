package nvidia

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// driverNeed is what all GPUs of a machine require of its driver.
type driverNeed struct {
	gpus    []GPU
	unknown []PCIID
	min     GPU // the one that needs the newest branch
	last    GPU // the one whose support ends first; LastBranch 0: none
	open    *GPU
	closed  *GPU
	from    archive
}

func driverNeedOf(ids []PCIID) (driverNeed, error) {
	var n driverNeed
	for _, id := range ids {
		if id.Vendor != Vendor {
			return driverNeed{}, &BranchError{Reason: fmt.Sprintf("PCI device %s is not NVIDIA's", id), Do: "name NVIDIA GPUs only"}
		}
		g, ok := Lookup(id)
		if !ok {
			n.unknown = append(n.unknown, id)
			continue
		}
		n.add(g)
	}
	if len(ids) == 0 {
		return driverNeed{}, &BranchError{Reason: "there is no GPU to choose one for", Do: "name at least one"}
	}
	if n.open != nil && n.closed != nil {
		return driverNeed{}, &BranchError{
			Reason: fmt.Sprintf("%s works only with the open kernel modules, %s only with the proprietary ones", n.open, n.closed),
			Do:     "give a machine cards of one kind: gpus: {model: …} or {pci: […]}",
		}
	}
	return n, nil
}

func (n *driverNeed) add(g GPU) {
	n.gpus = append(n.gpus, g)
	if g.MinBranch > n.min.MinBranch {
		n.min = g
	}
	if g.LastBranch != 0 && (n.last.LastBranch == 0 || g.LastBranch < n.last.LastBranch) {
		n.last = g
	}
	switch g.Open {
	case OpenRequired:
		n.open = &g
	case OpenUnsupported:
		n.closed = &g
	}
}

// best is the default choice: the default branch if the GPUs allow it, else the oldest
// supported branch that they allow.
func (n driverNeed) best() (Driver, error) {
	flavour := Open
	if n.closed != nil {
		flavour = Proprietary
	}
	first, _ := find(DefaultBranch)
	missed := false // a branch that only another distribution has
	for _, b := range append([]Branch{first}, branches()...) {
		d := Driver{b.Number, flavour}
		switch fits := n.refusal(d) == ""; {
		case b.Ended || !fits:
		case n.from.has(b.Number) && n.from.refusal(d) == "":
			return d, nil
		default:
			missed = true
		}
	}
	if missed && n.from.elsewhere != "" {
		oldest := Driver{slices.Min(n.from.branches), flavour}
		return Driver{}, &BranchError{Reason: fmt.Sprintf("%s, and %s begins with %d", n.refusal(oldest), n.from.name, oldest.Branch),
			Do: n.from.elsewhere}
	}
	if why := n.from.refusal(Driver{DefaultBranch, flavour}); why != "" && n.refusal(Driver{DefaultBranch, flavour}) == "" {
		return Driver{}, &BranchError{Branch: Driver{DefaultBranch, flavour}.String(), Reason: why,
			Do: "run apt-get update there, or write mode: dkms"}
	}
	return Driver{}, &BranchError{Reason: n.refusal(Driver{DefaultBranch, flavour}),
		Do: "remove the GPU from the machine; no supported branch works with it"}
}

// refusal says why a driver does not work for one of the GPUs, or nothing.
func (n driverNeed) refusal(d Driver) string {
	switch {
	case n.last.LastBranch != 0 && d.Branch > n.last.LastBranch:
		return fmt.Sprintf("branch %d is the last for %s", n.last.LastBranch, n.last)
	case d.Branch < n.min.MinBranch:
		return fmt.Sprintf("%s is supported from branch %d on", n.min, n.min.MinBranch)
	case d.Flavour == Open && n.closed != nil:
		return fmt.Sprintf("%s does not work with the open kernel modules", n.closed)
	case d.Flavour == Proprietary && n.open != nil:
		return fmt.Sprintf("%s works only with the open kernel modules", n.open)
	case d.Flavour == Proprietary && d.Branch >= firstOpenOnly:
		return fmt.Sprintf("from branch %d on there are only open kernel modules", firstOpenOnly)
	default:
		return ""
	}
}

// checkPinned checks the requested driver.
func (n driverNeed) checkPinned(wish, installed, fit Driver) (Driver, string, error) {
	d := wish
	if d.Flavour == "" {
		d.Flavour = fit.Flavour
	}
	why := "pinned"
	if d.Branch == 0 { // only the flavour is pinned
		d.Branch = fit.Branch
		why = "flavour pinned"
		if installed.Branch != 0 {
			d.Branch = installed.Branch
		}
	}
	do := fmt.Sprintf("write %s, or leave branch and flavour out", fit)
	if reason := n.refusal(d); reason != "" {
		return Driver{}, "", &BranchError{d.String(), reason, do}
	}
	switch b, known := find(d.Branch); {
	case d == installed: // it is installed, so it is available
		return d, n.describe(d, why+", and installed"+supportEnded(b)), nil
	case known && b.Ended:
		return Driver{}, "", &BranchError{d.String(), "NVIDIA's support for it ended" + month(b), do}
	case !known || !n.from.has(d.Branch):
		return Driver{}, "", &BranchError{d.String(), fmt.Sprintf("%s has no series of that branch; supported are %s", n.from.name, n.from.current()), do}
	case n.from.refusal(d) != "":
		return Driver{}, "", &BranchError{d.String(), n.from.refusal(d), do}
	default:
		return d, n.describe(d, why+", supported until "+b.Until), nil
	}
}

// resolveBranchWord replaces a word for a branch by the branch: the installed one if it is of that kind, or
// the newest one of that kind that fits.
func (n driverNeed) resolveBranchWord(p Policy) (Policy, error) {
	kind := map[string]string{LTS: "long-term support", Production: "production"}[p.Branch]
	if kind == "" {
		return p, nil
	}
	installed, err := p.installedDriver()
	if err != nil {
		return p, err
	}
	newest, found := 0, 0
	for _, b := range branches() {
		if b.Kind != kind || b.Ended {
			continue
		}
		newest = b.Number
		d := Driver{b.Number, Open}
		if n.closed != nil {
			d.Flavour = Proprietary
		}
		if fits := n.refusal(d) == "" && n.from.has(b.Number) && n.from.refusal(d) == ""; fits && (found == 0 || found != installed.Branch) ||
			b.Number == installed.Branch {
			found = b.Number
		}
	}
	if newest == 0 {
		return p, &BranchError{p.Branch, "no supported branch is of that kind", fmt.Sprintf("write %d", DefaultBranch)}
	}
	p.Branch = strconv.Itoa(cmp.Or(found, newest)) // one that does not fit is refused, with the reason
	return p, nil
}

// quoteWord names the word by which a branch was pinned.
func quoteWord(why, word, branch string) string {
	if word == branch {
		return why
	}
	return strings.Replace(why, "pinned", "pinned by "+word, 1)
}

// checkInstalled checks the installed driver.
func (n driverNeed) checkInstalled(installed, fit Driver) (Driver, string, error) {
	if reason := n.refusal(installed); reason != "" {
		return Driver{}, "", &BranchError{installed.String(), reason, fmt.Sprintf("it is installed and is not replaced by itself: pin %s to replace it", fit)}
	}
	b, _ := find(installed.Branch)
	return installed, n.describe(installed, "installed, kept"+supportEnded(b)), nil
}

// supportEnded returns a warning if support has ended.
func supportEnded(b Branch) string {
	if !b.Ended {
		return ""
	}
	return fmt.Sprintf("; NVIDIA's support for it ended%s: pin %d to replace it", month(b), b.Cards)
}

func month(b Branch) string {
	if b.Until == "" {
		return ""
	}
	return " in " + b.Until
}

// reason explains the default choice.
func (n driverNeed) reason(d Driver) string {
	b, _ := find(d.Branch)
	why := fmt.Sprintf("NVIDIA's %s branch, until %s", b.Kind, b.Until)
	switch {
	case n.closed != nil:
		why = fmt.Sprintf("%s; %s, and it does not work with the open kernel modules", why,
			n.refusal(Driver{n.closed.LastBranch + 1, Proprietary}))
	case d.Branch != DefaultBranch && n.from.has(DefaultBranch) && n.refusal(Driver{DefaultBranch, d.Flavour}) == "":
		why = fmt.Sprintf("%s; %d: %s", why, DefaultBranch, n.from.refusal(Driver{DefaultBranch, d.Flavour}))
	case d.Branch != DefaultBranch && !n.from.has(DefaultBranch):
		why = fmt.Sprintf("%s; %s begins with %d", why, n.from.name, slices.Min(n.from.branches))
	case d.Branch != DefaultBranch:
		why = fmt.Sprintf("%s; %s", why, n.refusal(Driver{DefaultBranch, d.Flavour}))
	case n.open != nil:
		why = fmt.Sprintf("%s; %s", why, n.refusal(Driver{DefaultBranch, Proprietary}))
	}
	return n.describe(d, why)
}

// describe joins the driver, the reason, the GPUs, and a warning for those that are not in the
// table.
func (n driverNeed) describe(d Driver, why string) string {
	s := fmt.Sprintf("%s: %s", d, why)
	if names := n.names(); names != "" {
		s += "; for " + names
	}
	if len(n.unknown) > 0 {
		ids := make([]string, len(n.unknown))
		for i, id := range n.unknown {
			ids[i] = id.String()
		}
		s += fmt.Sprintf("; WARNING: not in our table of %s, perhaps too new for this branch: %s", LifecycleDate, strings.Join(ids, ", "))
	}
	return s
}

func (n driverNeed) names() string {
	var names []string
	for _, g := range n.gpus {
		if s := g.String(); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return strings.Join(names, ", ")
}

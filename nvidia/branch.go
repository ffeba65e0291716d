package nvidia

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/distro"
)

// Flavour says which of NVIDIA's two sets of kernel modules a driver uses.
type Flavour string

// The flavours.
const (
	Open        Flavour = "open"
	Proprietary Flavour = "proprietary"
)

// Driver is a driver series of Ubuntu's "server" kind.
type Driver struct {
	Branch  int // e.g. 580
	Flavour Flavour
}

// String returns Ubuntu's name of the series, e.g. "580-server-open"; "none" for the zero Driver.
func (d Driver) String() string {
	if d.Branch == 0 {
		return "none"
	}
	s := strconv.Itoa(d.Branch) + "-server"
	if d.Flavour == Open {
		s += "-open"
	}
	return s
}

var series = regexp.MustCompile(`^(\d{3})(-server)?(-open)?$`)

// parseDriver reads Ubuntu's name of a series: "580-server-open" is open,
// "580-server" is proprietary. The desktop series ("580-open", "580") conflict
// with the server ones and are refused.
func parseDriver(s string) (Driver, error) {
	m := series.FindStringSubmatch(s)
	if m == nil || m[2] == "" {
		return Driver{}, fmt.Errorf("driver %q: want a server series, such as %s", s, Driver{DefaultBranch, Open})
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return Driver{}, fmt.Errorf("driver %q: %w", s, err)
	}
	if m[3] != "" {
		return Driver{n, Open}, nil
	}
	return Driver{n, Proprietary}, nil
}

// DefaultBranch is NVIDIA's long-term branch.
const DefaultBranch = 580

// Branch describes a branch in NVIDIA's life cycle.
type Branch struct {
	Number int
	Kind   string // NVIDIA's word: "long-term support", "production", "new feature"
	Until  string // the month in which support ends, or ended
	Ended  bool   // as of LifecycleDate
	Cards  int    // what to use instead if it has ended or Ubuntu has only an alias
}

// LifecycleDate is when the table of branches was read at
// https://docs.nvidia.com/datacenter/tesla/drivers/620/supported-drivers-and-cuda-toolkit-versions.html.
const LifecycleDate = "2026-11"

// branches returns NVIDIA's life cycle, oldest first, whatever a distribution offers.
func branches() []Branch {
	return []Branch{
		{470, "last for Kepler", "", true, DefaultBranch},
		{535, "long-term support", "June 2026", true, DefaultBranch},
		{550, "production", "2025", true, DefaultBranch},
		{565, "new feature", "2025", true, DefaultBranch}, // in 24.04 an alias of 580
		{570, "production", "February 2026", true, DefaultBranch},
		{575, "new feature", "2025", true, DefaultBranch}, // in 24.04 an alias of 580
		{580, "long-term support", "June 2028", false, 0},
		{590, "new feature", "2026", true, 595}, // in 24.04 an alias of 595
		{595, "production", "March 2027", false, 0},
		{610, "new feature", "August 2026", true, 595},
		{615, "new feature", "2026", true, 620},
		{620, "long-term support", "September 2029", false, 0},
	}
}

// firstOpenOnly is the first branch without proprietary modules.
const firstOpenOnly = 615

// Policy says which driver the owner of a machine wants.
type Policy struct {
	// Branch is "580", "580-server" (the branch alone), "580-server-open", or one of the words
	// LTS and Production; empty: chosen here.
	Branch    string
	Flavour   Flavour // empty: chosen here
	Installed string  // the installed series, as Ubuntu names it; it stays unless Branch or Flavour says otherwise
	System    string  // the machine's distribution, as cluster.yaml names it; empty: Ubuntu 24.04
	Build     bool    // DKMS builds the modules on the machine
	Offers    []Offer // what the machine's archive has for its cards, if that is known
}

// Words for a branch. NVIDIA's kinds of the same name are in [Branch].
const (
	LTS        = "lts"
	Production = "production"
)

// BranchError means that no driver fits, or that the requested one does not.
type BranchError struct {
	Branch string // the requested or installed driver; empty if there is none
	Reason string
	Do     string // what to write instead
}

// Error implements error.
func (e *BranchError) Error() string {
	if e.Branch == "" {
		return fmt.Sprintf("no NVIDIA driver fits: %s: %s", e.Reason, e.Do)
	}
	return fmt.Sprintf("NVIDIA driver %s does not fit: %s: %s", e.Branch, e.Reason, e.Do)
}

// SelectDriverBranch chooses the driver for a machine with the given GPUs, and explains the
// choice. An installed series is kept as long as it fits; it is never upgraded by itself.
func SelectDriverBranch(gpus []PCIID, policy Policy) (Driver, string, error) {
	need, err := driverNeedOf(gpus)
	if err != nil {
		return Driver{}, "", err
	}
	need.from = archiveOf(policy)
	word := policy.Branch
	if policy, err = need.resolveBranchWord(policy); err != nil {
		return Driver{}, "", err
	}
	wish, err := policy.driver()
	if err != nil {
		return Driver{}, "", err
	}
	installed, err := policy.installedDriver()
	if err != nil {
		return Driver{}, "", err
	}
	fit, unfit := need.best()
	switch stays := installed.Branch != 0 && need.refusal(installed) == ""; {
	case unfit != nil && !stays:
		return Driver{}, "", unfit
	case wish.Branch != 0 || wish.Flavour != "":
		d, why, err := need.checkPinned(wish, installed, fit)
		return d, quoteWord(why, word, policy.Branch), err
	case installed.Branch != 0:
		return need.checkInstalled(installed, fit)
	default:
		return fit, need.reason(fit), nil
	}
}

// driver reads Branch and Flavour; an open choice is zero.
func (p Policy) driver() (Driver, error) {
	d := Driver{Flavour: p.Flavour}
	if p.Flavour != "" && p.Flavour != Open && p.Flavour != Proprietary {
		return Driver{}, &BranchError{string(p.Flavour), "there is no such flavour", fmt.Sprintf("write %s or %s", Open, Proprietary)}
	}
	if p.Branch == "" {
		return d, nil
	}
	m := series.FindStringSubmatch(p.Branch)
	if m == nil {
		return Driver{}, &BranchError{p.Branch, "that is not a branch", fmt.Sprintf("write %d, %s or %s, or leave it out", DefaultBranch, LTS, Production)}
	}
	d.Branch, _ = strconv.Atoi(m[1]) // three digits
	if m[3] == "" {
		return d, nil
	}
	if m[2] == "" {
		return Driver{}, &BranchError{p.Branch, "that is the desktop series, which conflicts with the server one", fmt.Sprintf("write %s-server-open", m[1])}
	}
	if p.Flavour == Proprietary {
		return Driver{}, &BranchError{p.Branch, "the flavour says proprietary", "write one of the two"}
	}
	d.Flavour = Open
	return d, nil
}

func (p Policy) installedDriver() (Driver, error) {
	if p.Installed == "" {
		return Driver{}, nil
	}
	return parseDriver(p.Installed)
}

// find returns the branch's row; ok is false for a number that NVIDIA never used
// or that is newer than the table.
func find(number int) (b Branch, ok bool) {
	all := branches()
	i := slices.IndexFunc(all, func(b Branch) bool { return b.Number == number })
	if i < 0 {
		return Branch{Number: number}, false
	}
	return all[i], true
}

// archive is the source of a machine's driver.
type archive struct {
	name      string // with its number: "Ubuntu 24.04 has", "NVIDIA's repository for Debian 13 has"
	branches  []int
	offers    []Offer
	build     bool
	elsewhere string // what to write for a branch that only another distribution has; empty: none has more
}

func archiveOf(p Policy) archive {
	all := distro.All()
	d := distro.ByName(p.System)
	a := archive{name: d.Title, offers: p.Offers, build: p.Build}
	way := d.Driver(p.Build)
	if !way.IsSupported() { // which is refused elsewhere
		way = all[0].Prebuilt
	}
	if way.Source != nil {
		a.name = way.Source.Title
	}
	a.branches = way.Branches
	if d.Name != all[0].Name {
		a.elsewhere = "write image: " + all[0].Name + ", which has it"
	}
	return a
}

// has reports whether a branch is available, and not as an alias of another.
func (a archive) has(number int) bool { return slices.Contains(a.branches, number) }

// refusal says why a driver is not available for the machine's cards; empty if it is.
func (a archive) refusal(d Driver) string { return withheld(d, a.offers, a.build) }

// current lists the supported branches that can be installed, as text.
func (a archive) current() string {
	var names []string
	for _, b := range branches() {
		if a.has(b.Number) && !b.Ended {
			names = append(names, strconv.Itoa(b.Number))
		}
	}
	return strings.Join(names, " or ")
}

package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Conflict is a pair of versions that do not work together, or are not known to.
type Conflict struct {
	Parts   []string // names of the parts
	Warning bool     // it may work: nothing is known, or it works but is not recommended
	Problem string   // what does not fit
	Cure    string   // what to do
}

// String returns both sentences.
func (c Conflict) String() string { return c.Problem + ": " + c.Cure }

// Incompatible returns the conflicts that are not mere warnings.
func Incompatible(all []Conflict) []Conflict {
	return slices.DeleteFunc(slices.Clone(all), func(c Conflict) bool { return c.Warning })
}

// Check reports what does not work together, without the charts: what they do not say themselves.
// A chart's own kubeVersion is checked when it is rendered. kubernetes is a version such as
// "v1.36.5+k3s1", versions are by part. An empty version means the pinned one. An empty
// Kubernetes version is not checked. If nothing is known about a version, that is a warning.
func (p Pins) Check(kubernetes string, parts map[string]string) []Conflict {
	k, problem := parseKubernetes(kubernetes)
	if problem != nil {
		return []Conflict{*problem}
	}
	c := checker{pins: p, kubernetes: k, versions: map[string]*semver.Version{}}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		c.part(name, parts[name])
	}
	c.fleet()
	return c.found
}

func parseKubernetes(s string) (*semver.Version, *Conflict) {
	if s == "" {
		return nil, nil
	}
	v, err := semver.NewVersion(s)
	if err != nil {
		return nil, &Conflict{Problem: fmt.Sprintf("%q is not a version of Kubernetes", s), Cure: "write it as K3s does, e.g. v1.36.5+k3s1"}
	}
	return v, nil
}

type checker struct {
	pins       Pins
	kubernetes *semver.Version // nil: not looked at
	versions   map[string]*semver.Version
	found      []Conflict
}

func (c *checker) add(warning bool, parts []string, cure, format string, args ...any) {
	c.found = append(c.found, Conflict{Parts: parts, Warning: warning, Problem: fmt.Sprintf(format, args...), Cure: cure})
}

// part checks one part against Kubernetes.
func (c *checker) part(name, version string) {
	pin, ok := c.pins[name]
	if !ok {
		c.add(true, []string{name}, "check its documentation", "nothing is known of the versions of %s", name)
		return
	}
	if version == "" {
		version = pin.Version
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		c.add(false, []string{name}, fmt.Sprintf("write it exactly, e.g. %s", pin.Version), "%q is not an exact version of %s: a range does not pin anything", version, name)
		return
	}
	c.versions[name] = v
	if trimV(version) != trimV(pin.Version) {
		c.checkUnpinned(name, pin, v)
	}
	if want, _ := kubernetesFor(pin, v); want != "" && c.kubernetes != nil && !satisfies(want, c.kubernetes) {
		c.add(false, []string{name}, c.cure(name, pin), "%s %s works with Kubernetes %s, and this is %s", name, version, describeConstraint(want), c.kubernetes.Original())
	}
}

// checkUnpinned reports what is known about a version other than the pinned one.
func (c *checker) checkUnpinned(name string, pin Pin, v *semver.Version) {
	names := []string{name}
	if _, known := kubernetesFor(pin, v); !known {
		c.add(true, names, fmt.Sprintf("look at its release notes, or take %s", pin.Version),
			"it is not known what %s %s works with: %s is the version that we know", name, v.Original(), pin.Version)
	}
	if pin.Advised != "" && v.LessThan(semver.MustParse(pin.Advised)) {
		c.add(true, names, fmt.Sprintf("take %s or later; %s is ours", pin.Advised, pin.Version), "%s %s %s", name, v.Original(), pin.Reason)
	}
}

// cure names a version of the part that fits this Kubernetes, and the versions of
// Kubernetes that fit the pinned part.
func (c *checker) cure(name string, pin Pin) string {
	var fit []string
	for _, l := range pin.Lines {
		if satisfies(l.Kubernetes, c.kubernetes) {
			fit = append(fit, l.Minor)
		}
	}
	cure := fmt.Sprintf("%s %s takes Kubernetes %s", name, pin.Version, describeConstraint(pin.Kubernetes))
	if len(fit) > 0 {
		return fmt.Sprintf("take %s %s for this Kubernetes; %s", name, strings.Join(fit, " or "), cure)
	}
	return cure
}

// fleet checks Rancher and Fleet against each other.
func (c *checker) fleet() {
	rancher, fleet, crd := c.versions["rancher"], c.versions["fleet"], c.versions["fleet-crd"]
	if rancher != nil && fleet != nil {
		c.add(false, []string{"rancher", "fleet"},
			"leave the standalone Fleet out: Rancher installs the one that it was tested with"+c.bundledFleet(rancher),
			"a standalone Fleet beside Rancher would be two controllers for the same objects, each undoing the other")
	}
	if fleet != nil && crd != nil && !fleet.Equal(crd) {
		c.add(false, []string{"fleet", "fleet-crd"}, fmt.Sprintf("take fleet-crd %s", fleet.Original()),
			"fleet %s reads definitions of fleet-crd %s: the two charts are one release", fleet.Original(), crd.Original())
	}
	if fleet != nil && crd == nil {
		c.add(true, []string{"fleet", "fleet-crd"}, "install fleet-crd of the same version first", "fleet needs the definitions of fleet-crd")
	}
}

// bundledFleet says which Fleet a Rancher brings.
func (c *checker) bundledFleet(rancher *semver.Version) string {
	for _, l := range c.pins["rancher"].Lines {
		if l.Minor == minor(rancher) {
			return fmt.Sprintf(" (%s brings Fleet %s)", rancher.Original(), l.Fleet)
		}
	}
	return ""
}

// kubernetesFor returns the versions of Kubernetes that a version of a part takes.
func kubernetesFor(pin Pin, v *semver.Version) (want string, known bool) {
	for _, l := range pin.Lines {
		if l.Minor == minor(v) {
			return l.Kubernetes, true
		}
	}
	// A chart without a constraint, or with only a lower bound, has the same in its
	// neighbours: what is known applies to the same minor version only.
	if minor(semver.MustParse(pin.Version)) == minor(v) {
		return pin.Kubernetes, true
	}
	return "", false
}

func satisfies(constraint string, v *semver.Version) bool {
	c, err := semver.NewConstraint(constraint)
	return err == nil && c.Check(v)
}

func minor(v *semver.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// describeConstraint makes a constraint readable: "from 1.34 to below 1.37".
func describeConstraint(constraint string) string {
	s := strings.NewReplacer(">=", "from ", "<", "to below ", ".0-0", "").Replace(constraint)
	if strings.HasPrefix(s, "from ") && !strings.Contains(s, "below") {
		s += " on"
	}
	return strings.TrimPrefix(s, "to ")
}

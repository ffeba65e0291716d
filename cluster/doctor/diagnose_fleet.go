package doctor

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/fleet"
)

// fleet judges what the tools have made of the Git repositories.
func (d *diagnosis) fleet() {
	for _, s := range d.e.Fleet {
		for _, why := range s.Wrong {
			f := Finding{Failure: "fleet-repo", Severity: Warning, Where: "gitrepo " + s.Name, What: why,
				Do: "what runs keeps running, and no new commit arrives: check URL, credentials and branch; homelab fleet:status"}
			if s.Job != "" {
				f.Evidence = []string{"job: " + s.Job}
			}
			d.add(inWorkload, "", f)
		}
		for _, b := range s.Bundles {
			if b.State != fleet.StateReady && b.State != fleet.StateKept {
				d.bundle(s, b)
			}
		}
	}
}

// bundle judges a bundle that is not ready. One that waits for another follows from that one, and
// one whose object has a pod in trouble from the pod's.
func (d *diagnosis) bundle(s *fleet.State, b fleet.BundleState) {
	f := Finding{Failure: "fleet-bundle", Severity: Warning, Where: "bundle " + b.Name, What: b.State}
	f.Do = "homelab fleet:status shows it until it is ready"
	if b.Cluster != "" && b.Cluster != "local" {
		f.Where += "@" + b.Cluster
	}
	for _, o := range b.Obstacles {
		f.Evidence = append(f.Evidence, o.String())
	}
	if len(f.Evidence) > 0 {
		f.What += ": " + f.Evidence[0]
	}
	switch b.State {
	case "ErrApplied":
		f.Severity, f.Do = Error, "fix it in Git, and push: the reason names what is wrong"
	case "NotReady":
		f.Severity, f.Do = Error, "look at the object that the reason names, and at its pods and events"
	case fleet.StateNowhere:
		f.Severity, f.Do = Error, "its targets match no cluster: homelab fleet:lint says why"
	case "Modified":
		f.Do = "bring the change into Git, or undo it: it is reported and not corrected"
	}
	for _, cause := range d.found {
		if f.Follows == "" && (waitsForBundle(s, b, cause) || dependsOn(b, cause)) {
			f.Follows = cause.name()
		}
	}
	d.add(inWorkload, "", f)
}

// waitsForBundle reports whether a bundle waits for the one of a finding. Bundles are sorted, those that
// failed before those that wait.
func waitsForBundle(s *fleet.State, b fleet.BundleState, cause Finding) bool {
	name, ok := strings.CutPrefix(cause.Where, "bundle ")
	return ok && b.State == fleet.StateWaiting && slices.ContainsFunc(b.Obstacles, func(o fleet.Obstacle) bool {
		return slices.Contains(strings.FieldsFunc(o.Reason, func(r rune) bool { return strings.ContainsRune(" ,'/", r) }), name)
	}) && slices.ContainsFunc(s.Bundles, func(x fleet.BundleState) bool { return x.Name == name })
}

// dependsOn reports whether a finding is of a pod of an object that a bundle waits for.
func dependsOn(b fleet.BundleState, cause Finding) bool {
	return slices.ContainsFunc(b.Obstacles, func(o fleet.Obstacle) bool {
		_, name, ok := strings.Cut(o.Object, " ")
		return ok && strings.HasPrefix(cause.Where, "pod "+name+"-")
	})
}

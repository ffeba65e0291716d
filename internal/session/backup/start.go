package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/k3s"
)

var (
	minorOf     = regexp.MustCompile(`^v[0-9]+\.[0-9]+`)
	serviceCIDR = regexp.MustCompile(`(?m)^ *(?:service-cidr|serviceSubnet): *["']?([0-9a-f.:]+/[0-9]+)`)
)

// startFromBackup has the lab's Kubernetes start from a backup's snapshot and read all of it.
func startFromBackup(ctx context.Context, o session.Options, open openBackup, facts *backup.Facts) (labctl.ScratchContents, error) {
	var none labctl.ScratchContents
	r, file, err := open()
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }()
	const first = ".0+k3s1" // of a minor version: patches do not matter
	if k3s.CompareVersions(minorOf.FindString(r.Version())+first, minorOf.FindString(labctl.KubernetesVersion)+first) > 0 {
		return none, session.Invalid("%w", fmt.Errorf("-start: the snapshot is of %s, and homelab brings Kubernetes %s, which cannot read it: verify it with a later homelab, or without -start",
			r.Program(), labctl.KubernetesVersion))
	}
	snapshot, err := backup.Plain(ctx, r, r.Snapshot)
	if err != nil {
		return none, err
	}
	in := labctl.Scratch{Snapshot: snapshot, Encryption: []byte(facts.Encryption.Reveal())}
	if m := serviceCIDR.FindSubmatch(r.Config); m != nil {
		in.Services = string(m[1])
	}
	ctx, end := session.WithProgress(ctx, o.Console)
	defer end()
	has, err := labctl.ReadScratch(ctx, labctl.Options{Dir: session.LabDir()}, in)
	if err != nil {
		return none, err
	}
	return has, countDifferences(has, facts)
}

// countDifferences says what of the kinds that a backup counts could not be read. The API server may have
// made objects of its own when it started, so there may be more than before.
func countDifferences(has labctl.ScratchContents, facts *backup.Facts) error {
	var errs []error
	for _, k := range backup.Kinds() {
		why, unread := has.Unread[k.Resource]
		switch {
		case unread && k.Resource == "secrets":
			errs = append(errs, fmt.Errorf("the Secrets cannot be decrypted with the key in the snapshot: %s", why))
		case unread:
			errs = append(errs, fmt.Errorf("%s cannot be read: %s", k.Resource, why))
		case has.Objects[k.Resource] < facts.Objects[k.Resource]:
			errs = append(errs, fmt.Errorf("of %d %s Kubernetes reads %d", facts.Objects[k.Resource], k.Resource, has.Objects[k.Resource]))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("Kubernetes starts from the snapshot, but does not read all of it: %w", errors.Join(errs...))
	}
	return nil
}

// describeStarted says what Kubernetes has read.
func describeStarted(c *console.Console, has labctl.ScratchContents, facts *backup.Facts) {
	total := 0
	for _, n := range has.Objects {
		total += n
	}
	secrets := printable.Count(has.Objects["secrets"], "Secret")
	if facts.SecretsKey {
		secrets += " that the key decrypts"
	}
	c.Printf("%-15s Kubernetes %s, on loopback: it reads %d objects of %d kinds, among them %s", "started", has.Kubernetes, total,
		len(has.Objects), secrets)
	if len(has.Unread) > 0 {
		c.Printf("%-15s %s: other programs of the cluster are needed for these", "not read",
			strings.Join(slices.Sorted(maps.Keys(has.Unread)), ", "))
	}
}

package backup

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
)

// warnDays is the default of -warn: K3s itself renews at a start earlier than that, so a
// certificate this old shows that K3s has not been restarted for long.
const warnDays = 90

// Certs shows the ages of K3s' certificates, and rotates them with -rotate.
func Certs(s *session.Session, ctx context.Context, f CertsFlags) error {
	if f.Rotate {
		if err := session.Lacks(s, "cluster:certs -rotate"); err != nil {
			return session.Invalid("%w", err)
		}
		return s.Change(ctx, func(context.Context) (*converge.Graph, error) { return s.Cluster.RotateCerts(), nil }, session.Change{
			ChangeFlags: f.ChangeFlags, Question: "Restart K3s on these nodes, one after the other?",
			Nothing: "All certificates are less than a month old.", Done: "All nodes have new certificates.",
		})
	}
	if f.Warn == 0 {
		f.Warn = warnDays
	}
	all := s.Cluster.Certs(ctx)
	t, old, silent := certTable(all, time.Now(), f.Warn)
	if s.JSON {
		if err := console.Objects(s.Console, all); err != nil {
			return err
		}
	} else {
		s.Table(t)
	}
	return certsError(old, silent, f.Warn)
}

// certsError says what the numbers of a table of certificates mean.
func certsError(old, silent, warn int) error {
	switch {
	case old > 0:
		return session.Pending(fmt.Errorf("on %s a certificate ends within %d days: homelab cluster:certs -rotate renews them", printable.Count(old, "node"), warn))
	case silent > 0:
		return fmt.Errorf("%s did not answer", printable.Count(silent, "node"))
	}
	return nil
}

// certTable has each node's certificate that ends first. old counts the nodes where that is in less than
// warn days, silent those whose certificates could not be read.
func certTable(all []cluster.Certificates, now time.Time, warn int) (t console.Table, old, silent int) {
	t.Header = []string{"NODE", "ROLE", "FIRST TO END", "ENDS", "DAYS LEFT", "CERTIFICATES", ""}
	for _, n := range all {
		first, count := firstExpiringLeaf(n)
		switch {
		case n.Err != nil:
			silent++
			t.Add(n.Node, n.Role, "-", "-", "-", "-", "UNKNOWN: "+n.Err.Error())
		case count == 0:
			t.Add(n.Node, n.Role, "-", "-", "-", "0", "K3s has not joined here")
		default:
			left := int(math.Floor(first.Until.Sub(now).Hours() / 24)) // -1 from the moment in which it ends
			remark := ""
			if left < warn {
				old++
				remark = remarkOf(left)
			}
			t.Add(n.Node, n.Role, first.File, first.Until.Format(time.DateOnly), fmt.Sprint(left), fmt.Sprint(count), remark)
		}
	}
	return t, old, silent
}

func remarkOf(left int) string {
	if left < 0 {
		return "EXPIRED"
	}
	return "ends soon"
}

// firstExpiringLeaf is the certificate of no authority that ends first, and how many there are.
func firstExpiringLeaf(n cluster.Certificates) (first cluster.Certificate, count int) {
	for _, c := range n.All {
		if c.Authority {
			continue
		}
		if count == 0 {
			first = c
		}
		count++
	}
	return first, count
}

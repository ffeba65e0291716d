package apt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/remote"
)

// Upgrade is what brings a machine's packages to the newest of its distribution's release.
type Upgrade struct {
	Changes    []Change
	Unfinished []string // unpacked and not configured, as a dpkg that was killed leaves them
	Restart    bool     // an earlier upgrade waits for a restart of the machine
}

// Change is a package that is upgraded or newly installed.
type Change struct {
	Name, From, To string   // From is empty if it is new
	Sources        []string // of To, as apt names them: Ubuntu:24.04/noble-updates
}

// Look reads the package lists and returns what [Run] would do. Of the packages on hold only those
// named in held change.
func Look(ctx context.Context, r remote.Runner, held []string) (Upgrade, error) {
	release, err := remote.Output(ctx, r, "sh", "-c", "cat /etc/os-release; if [ -e /run/reboot-required ]; then echo reboot-required; fi")
	if err != nil {
		return Upgrade{}, err
	}
	id, version := distro.Release(string(release))
	if id != "debian" && id != "ubuntu" {
		return Upgrade{}, converge.Permanent(fmt.Errorf("the machine runs %q, and homelab upgrades only Debian and Ubuntu: upgrade it there", id))
	}
	lists, err := ReadLists(ctx, r)
	if err == nil && strings.Contains(lists, failedFetch) {
		err = explain(errors.New("apt-get cannot see every repository, so it does not know what is newest"), "", lists)
	}
	if err != nil {
		return Upgrade{}, err
	}
	out, err := remote.Output(ctx, r, upgrade(held, "--simulate")...)
	if err != nil {
		return Upgrade{}, explain(err, string(out), "")
	}
	u := parse(string(out))
	u.Restart = slices.Contains(strings.Split(string(release), "\n"), "reboot-required")
	return u, converge.Permanent(u.otherRelease(id, version))
}

// Fetch downloads the packages and changes nothing else.
func Fetch(ctx context.Context, r remote.Runner, held []string) error {
	err := run(ctx, r, upgrade(held, "--download-only"))
	if interrupted(err) {
		return nil // Run finishes that first
	}
	return err
}

// Run upgrades the packages, and holds those named in held again, which apt-get no longer does once they
// have changed. What an interrupted dpkg has left is finished first.
func Run(ctx context.Context, r remote.Runner, held []string) error {
	err := run(ctx, r, upgrade(held))
	if interrupted(err) {
		converge.Progressf(ctx, "finishing what an interrupted dpkg has left")
		err = run(ctx, r, []string{"env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--force-confdef", "--force-confold", "--configure", "-a"})
		if err == nil {
			err = run(ctx, r, upgrade(held))
		}
	}
	if len(held) > 0 && ctx.Err() == nil {
		err = errors.Join(err, remote.Run(ctx, r, slices.Concat([]string{"apt-mark", "hold"}, held)...))
	}
	return err
}

// upgrade removes no package, and keeps configuration files that were changed. It brings new packages
// if others need them, as a newer kernel does.
func upgrade(held []string, options ...string) []string {
	return slices.Concat(command("upgrade", "--yes", "--with-new-pkgs", "--no-remove", "--allow-change-held-packages",
		"-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"), options, held)
}

func run(ctx context.Context, r remote.Runner, args []string) error {
	return r.Run(ctx, remote.Cmd{Args: args, Stdout: converge.ProgressWriter(ctx)})
}

// interrupted reports whether apt-get refuses because dpkg was killed while it wrote its database.
func interrupted(err error) bool {
	return err != nil && strings.Contains(err.Error(), "dpkg was interrupted")
}

// The lines of apt-get --simulate: "Inst curl [8.5.0] (8.6.0 Ubuntu:24.04/noble [amd64])", where a new
// package has no version in brackets, and "Conf curl (8.6.0 …)".
var (
	instLine = regexp.MustCompile(`^Inst (\S+)(?: \[([^\]]*)\])? \((\S+)(?: (.*?))? \[[^\]]*\]\)`)
	confLine = regexp.MustCompile(`^Conf (\S+) \(`)
)

// parse reads the output of apt-get --simulate upgrade. What is configured without being installed was
// unpacked before.
func parse(out string) (u Upgrade) {
	installed := map[string]bool{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if m := instLine.FindStringSubmatch(line); m != nil {
			installed[m[1]] = true
			c := Change{Name: m[1], From: m[2], To: m[3]}
			if m[4] != "" {
				c.Sources = strings.Split(m[4], ", ")
			}
			u.Changes = append(u.Changes, c)
		} else if m := confLine.FindStringSubmatch(line); m != nil && !installed[m[1]] {
			u.Unfinished = append(u.Unfinished, m[1])
		}
	}
	return u
}

// releaseSource is a source of the distribution's own, with its release: Debian-Security:13/stable-security.
var releaseSource = regexp.MustCompile(`^(?:Debian|Debian-Security|Ubuntu):(\d[\d.]*)/`)

// otherRelease refuses packages of another release of the distribution than the one that runs.
func (u Upgrade) otherRelease(id, version string) error {
	for _, c := range u.Changes {
		for _, source := range c.Sources {
			m := releaseSource.FindStringSubmatch(source)
			if m != nil && version != "" && m[1] != version && !strings.HasPrefix(m[1], version+".") {
				return fmt.Errorf("%s would come from %s, and the machine runs %s %s: homelab does not upgrade to another release; "+
					"correct /etc/apt/sources.list and /etc/apt/sources.list.d there, or write another image and run homelab node:replace", c.Name, source, id, version)
			}
		}
	}
	return nil
}

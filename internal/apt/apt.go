// Package apt installs and upgrades packages on a machine of Debian or Ubuntu.
package apt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// command runs apt-get without questions.
func command(args ...string) []string {
	return append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300"}, args...)
}

// Install installs packages. lists is what [ReadLists] returned.
func Install(ctx context.Context, r remote.Runner, packages []string, lists string, options ...string) error {
	var said remote.Tail
	args := slices.Concat(command("install", "--yes", "--no-install-recommends", "--allow-change-held-packages"), options, packages)
	if err := r.Run(ctx, remote.Cmd{Args: args, Stdout: io.MultiWriter(converge.ProgressWriter(ctx), &said)}); err != nil {
		return explain(err, said.String(), lists)
	}
	return nil
}

// failedFetch begins apt-get's warnings about repositories that it could not reach.
const failedFetch = "W: Failed to fetch"

// explain adds further causes to the error of an installation: unmet dependencies, which apt-get
// prints to its standard output, and repositories that could not be reached when it read the
// lists.
func explain(err error, said, lists string) error {
	const unmet = "The following packages have unmet dependencies:"
	if _, after, found := strings.Cut(said, unmet); found {
		err = fmt.Errorf("%w; unmet dependencies: %s", err, remote.FailureText(after))
	}
	if strings.Contains(lists, failedFetch) {
		err = fmt.Errorf("%w; apt-get update had said: %s\n  does the machine reach that repository, or does a proxy (guest.apt) block it?",
			err, remote.FailureText(lists))
	}
	return err
}

// How long to wait for another process that updates the lists, and the interval between two
// tries.
const (
	listsTime = 5 * time.Minute
	listsPoll = 5 * time.Second
)

// ReadLists updates the package lists, and returns apt-get's warnings about lists that could
// not be fetched, for which it exits with 0. apt-get waits for dpkg's lock, but not for that
// of the lists (DPkg::Lock::Timeout does not apply to it), which Ubuntu's own timer takes
// after a boot; so ReadLists retries.
func ReadLists(ctx context.Context, r remote.Runner) (string, error) {
	var said remote.Tail
	var err error
	over := converge.Until(ctx, converge.WaitRule{What: "waiting for another apt-get", Limit: listsTime, Poll: listsPoll}, func(context.Context) (string, error) {
		said = remote.Tail{}
		err = r.Run(ctx, remote.Cmd{Args: command("update"), Stderr: &said})
		var exit *remote.ExitError
		if errors.As(err, &exit) && strings.Contains(exit.Stderr, "Could not get lock") {
			return "", err
		}
		return "", nil
	})
	if over != nil {
		return "", over
	}
	return said.String(), err
}

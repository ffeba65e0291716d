package apt

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// The files are what apt 2.6.1 and 3.0.4 print.
func TestParse(t *testing.T) {
	read := func(name string) Upgrade {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return parse(string(b))
	}
	held := read("held.txt")
	assert.Equal(t, []Change{
		{"libssl", "3.0.1", "3.0.2", []string{"Ubuntu:24.04/noble-updates"}},
		{"linux-image-6.8.0-90-generic", "", "6.8.0-90.91", []string{"Ubuntu:24.04/noble-updates"}},
		{"linux-generic", "6.8.0.85.85", "6.8.0.90.90", []string{"Ubuntu:24.04/noble-updates"}},
	}, held.Changes)
	assert.Equal(t, []string{"tzdata"}, held.Unfinished)
	require.NoError(t, held.otherRelease("ubuntu", "24.04"))
	require.ErrorContains(t, held.otherRelease("ubuntu", "22.04"), "libssl would come from Ubuntu:24.04/noble-updates, and the machine runs ubuntu 22.04")

	debian := read("debian.txt")
	require.Len(t, debian.Changes, 4)
	assert.Equal(t, Change{"libgcrypt20-dev", "1.10.1-3", "1.10.1-3+deb12u1", []string{"Debian:12.15/oldstable", "Debian-Security:12/oldstable-security"}}, debian.Changes[2])
	require.NoError(t, debian.otherRelease("debian", "12"))
	require.Error(t, debian.otherRelease("debian", "11"))
	require.Error(t, debian.otherRelease("debian", "1"), "12.15 is not of 1")
	require.NoError(t, debian.otherRelease("debian", ""), "testing has no number")
	assert.Empty(t, read("nothing.txt"))
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"held.txt", "debian.txt", "nothing.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, out string) {
		u := parse(out)
		for _, c := range u.Changes {
			assert.NotEmpty(t, c.Name)
			assert.NotEmpty(t, c.To)
		}
		_ = u.otherRelease("debian", "13")
	})
}

// What dpkg was doing when it was killed is finished, and the holds come back whatever happens.
func TestRunAfterAKill(t *testing.T) {
	var ran []string
	journal := true
	r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		line := strings.Join(cmd.Args, " ")
		ran = append(ran, line)
		switch {
		case strings.HasSuffix(line, "--configure -a"):
			journal = false
		case journal && slices.Contains(cmd.Args, "upgrade"):
			return &remote.ExitError{Args: cmd.Args, Code: 100, Stderr: "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n"}
		}
		return nil
	})
	require.NoError(t, Fetch(t.Context(), r, []string{"linux-generic"}), "Run finishes it")
	ran = nil
	require.NoError(t, Run(t.Context(), r, []string{"linux-generic"}))
	require.Len(t, ran, 4)
	assert.Contains(t, ran[1], "dpkg --force-confdef --force-confold --configure -a")
	assert.Equal(t, ran[0], ran[2])
	assert.Contains(t, ran[2], " upgrade --yes --with-new-pkgs --no-remove --allow-change-held-packages ")
	assert.Equal(t, "apt-mark hold linux-generic", ran[3])

	broken := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		ran = append(ran, strings.Join(cmd.Args, " "))
		if slices.Contains(cmd.Args, "upgrade") {
			return &remote.ExitError{Args: cmd.Args, Code: 100, Stderr: "E: no space left\n"}
		}
		return nil
	})
	ran = nil
	require.ErrorContains(t, Run(t.Context(), broken, []string{"a", "b"}), "no space left")
	assert.Equal(t, "apt-mark hold a b", ran[len(ran)-1])
}

// Without every repository nobody knows what is newest.
func TestLookNeedsEveryRepository(t *testing.T) {
	said := map[string]string{"sh": "ID=ubuntu\nVERSION_ID=\"24.04\"\nreboot-required\n"}
	failed := ""
	r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		if slices.Contains(cmd.Args, "update") {
			_, _ = cmd.Stderr.Write([]byte(failed))
		} else if cmd.Stdout != nil {
			_, _ = cmd.Stdout.Write([]byte(said[cmd.Args[0]]))
		}
		return nil
	})
	u, err := Look(t.Context(), r, nil)
	require.NoError(t, err)
	assert.Equal(t, Upgrade{Restart: true}, u)
	failed = "W: Failed to fetch https://mirror.example/InRelease  Could not connect\n"
	_, err = Look(t.Context(), r, nil)
	require.ErrorContains(t, err, "apt-get cannot see every repository")
	said["sh"] = "ID=\"fedora\"\n"
	_, err = Look(t.Context(), r, nil)
	require.ErrorContains(t, err, `the machine runs "fedora", and homelab upgrades only Debian and Ubuntu`)
}

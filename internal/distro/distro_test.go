package distro_test

import (
	"crypto/sha1"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/distro"
)

var update = flag.Bool("update", false, "rewrite the table of docs/distributions.md")

func TestEveryDistributionIsWhole(t *testing.T) {
	for _, d := range distro.All() {
		assert.Equal(t, d, distro.ByName(d.Name))
		assert.True(t, distro.IsKnown(d.Name))
		assert.NotEqual(t, d.SHA256 == "", d.SHA512 == "", "one checksum, that which is published")
		assert.Contains(t, path.Base(d.Image), d.Name)
	}
	assert.Equal(t, "ubuntu-24.04", distro.ByName("nonsense").Name)
	assert.Equal(t, []string{"ubuntu-24.04", "debian-13"}, distro.Names())
	assert.False(t, distro.IsKnown("debian-12"))
}

func TestSystem(t *testing.T) {
	for release, name := range map[string]string{
		"PRETTY_NAME=\"Ubuntu 24.04.4 LTS\"\nVERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n": "ubuntu-24.04",
		"ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm":                               "debian-12",
		"ID='rocky'\nVERSION_ID='9.6'\n":                                                        "rocky-9.6",
		"ID=debian\nVERSION_CODENAME=forky\n":                                                   "debian",
		"":                                                                                      "",
	} {
		assert.Equal(t, name, distro.System(release))
	}
}

func TestUnusableRelease(t *testing.T) {
	const ubuntu = "https://cloud-images.ubuntu.com/"
	for image, unusable := range map[string]bool{
		ubuntu + "releases/26.04/release/ubuntu-26.04-server-cloudimg-amd64.img": true, ubuntu + "resolute/current/x.img": true, "http://mirror.example/resolute-server.img": true,
		ubuntu + "releases/24.04/release/ubuntu-24.04-server-cloudimg-amd64.img": false, "http://resolute-mirror.example/noble.img": false, "": false,
	} {
		assert.Equal(t, unusable, distro.UnusableRelease(image) == "Ubuntu 26.04", image)
		assert.Equal(t, unusable, distro.UnusableRelease(image) != "", image)
	}
}

// A switch between GPUs needs the fabric manager of the driver's branch, whose name says it in the distribution's own packages.
func TestFabricPackages(t *testing.T) {
	assert.Equal(t, []string{"nvidia-fabricmanager"}, distro.FabricManager(true))
	assert.Equal(t, []string{"nvidia-fabricmanager-580"}, distro.Fill(distro.FabricManager(false), 580, true))
	assert.Equal(t, []string{"nvlsm", "infiniband-diags"}, distro.NVLink5())
}

// The page for people has a column for each, with what this table says.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/distributions.md")
	require.NoError(t, err)
	for _, d := range distro.All() {
		for _, word := range []string{d.Name, d.User, d.Sums, path.Dir(strings.TrimPrefix(d.Image, "https://"))} {
			assert.Contains(t, string(page), "`"+word+"`", d.Name)
		}
		host, domain, _ := strings.Cut(d.Mirror, ".")
		assert.Regexp(t, regexp.QuoteMeta("`"+d.Mirror+"`")+"|"+regexp.QuoteMeta("`"+host+"` of `"+domain+"`"), string(page), d.Name)
	}
}

// The key that a repository is trusted for is the one whose fingerprint is pinned, and it
// is alone in its file: every key of a keyring is trusted.
func TestKeyOfTheSource(t *testing.T) {
	for _, d := range distro.All() {
		source := d.DKMS.Source
		if source == nil {
			continue
		}
		assert.Equal(t, []string{source.Fingerprint}, fingerprints(t, source.Key), d.Name)
		assert.True(t, strings.HasSuffix(source.Keyring, ".asc"), "apt reads an armoured key by that name only")
		assert.Equal(t, "Types: deb\nURIs: "+source.URL+"\nSuites: /\nArchitectures: amd64\nSigned-By: "+source.Keyring+"\n", source.List())
	}
}

// fingerprints are those of the primary keys of an armoured keyring: the SHA-1 of the
// packet's body behind 0x99 and its length (RFC 9580, 5.5.4.2).
func fingerprints(t *testing.T, armour string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(armour, "\n\n")
	require.True(t, ok)
	body, _, ok := strings.Cut(rest, "\n=") // the checksum
	require.True(t, ok)
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(body, "\n", ""))
	require.NoError(t, err)
	var out []string
	for len(data) > 0 {
		require.Equal(t, byte(0x80), data[0]&0xc0, "a packet of the old format")
		var head, length int
		switch data[0] & 3 {
		case 0:
			head, length = 2, int(data[1])
		case 1:
			head, length = 3, int(data[1])<<8|int(data[2])
		default:
			require.Fail(t, "no key has packets as long as that")
		}
		if packet := data[head : head+length]; data[0]>>2&15 == 6 {
			out = append(out, fmt.Sprintf("%X", sha1.Sum(append([]byte{0x99, byte(length >> 8), byte(length)}, packet...))))
		}
		data = data[head+length:]
	}
	return out
}

func TestFill(t *testing.T) {
	names := []string{"a-{branch}-server", "b-{series}", "c{-open}-dkms", "d"}
	assert.Equal(t, []string{"a-580-server", "b-580-server-open", "c-open-dkms", "d"}, distro.Fill(names, 580, true))
	assert.Equal(t, []string{"a-580-server", "b-580-server", "c-dkms", "d"}, distro.Fill(names, 580, false))
}

// The table of drivers on the page for people is printed from this one.
func TestDriversInDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("| | `mode` | branches | packages, those of BRANCH with open modules |\n|---|---|---|---|\n")
	words := func(names []string) string {
		r := strings.NewReplacer("{branch}", "BRANCH", "{series}", "BRANCH-server-open", "{-open}", "-open")
		return "`" + r.Replace(strings.Join(names, "`, `")) + "`"
	}
	for _, d := range distro.All() {
		for _, dkms := range []bool{false, true} {
			way, mode := d.Driver(dkms), map[bool]string{false: "prebuilt", true: "dkms"}[dkms]
			if !way.IsSupported() {
				fmt.Fprintf(&table, "| %s | `%s` | none | |\n", d.Title, mode)
				continue
			}
			assert.True(t, slices.IsSorted(way.Branches), d.Name)
			branches := strings.Trim(strings.ReplaceAll(fmt.Sprint(way.Branches), " ", ", "), "[]")
			fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", d.Title, mode, branches, words(way.Packages))
			assert.NotEmpty(t, way.Holds, d.Name)
		}
	}
	const file, begin, end = "../../docs/distributions.md", "<!-- drivers: printed from internal/distro by its test -->\n\n", "\n<!-- end -->"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	have, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644))
		return
	}
	assert.Equal(t, table.String(), have, "go test ./internal/distro -update writes it")
}

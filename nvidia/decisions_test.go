package nvidia

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decision is a row of testdata/decisions.md, and of docs/drivers.md if it is one card and the file says nothing.
type decision struct {
	what   string
	gpus   []string
	policy Policy
	file   string // what the file says
}

func decisions() []decision {
	const (
		k80, p40, t4, a100, rtx4090, h200, gh200, b200, rtx5090 = "10de:102d", "10de:1b38", "10de:1eb8", "10de:20f1", "10de:2684", "10de:2335", "10de:2342", "10de:2901", "10de:2b85"
	)
	offers := parseOffers("nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)")
	return []decision{
		{"Kepler", []string{k80}, Policy{}, ""},
		{"Pascal", []string{p40}, Policy{}, ""},
		{"Volta", []string{v100}, Policy{}, ""},
		{"Turing", []string{t4}, Policy{}, ""},
		{"Ampere", []string{a100}, Policy{}, ""},
		{"Ada Lovelace", []string{rtx4090}, Policy{}, ""},
		{"Hopper", []string{h200}, Policy{}, ""},
		{"Grace Hopper", []string{gh200}, Policy{}, ""},
		{"Blackwell", []string{b200}, Policy{}, ""},
		{"Not in the table", []string{future}, Policy{}, ""},
		{"Two generations", []string{a100, rtx5090}, Policy{}, ""},
		{"Old and new in one node", []string{v100, a100}, Policy{}, ""},
		{"A pair that no driver fits", []string{v100, rtx5090}, Policy{}, ""},
		{"`lts`", []string{a100}, Policy{Branch: LTS}, "branch: lts"},
		{"`production`", []string{a100}, Policy{Branch: Production}, "branch: production"},
		{"`production`, old card", []string{v100}, Policy{Branch: Production}, "branch: production"},
		{"Pinned", []string{a100}, Policy{Branch: "595"}, "branch: 595-server"},
		{"Pinned, too new for the card", []string{v100}, Policy{Branch: "595"}, "branch: 595-server"},
		{"Pinned, too old for the card", []string{rtx5090}, Policy{Branch: "535"}, "branch: 535-server"},
		{"Open modules on an old card", []string{v100}, Policy{Branch: "580-server-open"}, "branch: 580-server-open"},
		{"Proprietary ones on a new card", []string{rtx5090}, Policy{Flavour: Proprietary}, "flavour: proprietary"},
		{"Ended branch", []string{a100}, Policy{Branch: "570"}, "branch: 570-server"},
		{"Branch that is an alias of 580", []string{a100}, Policy{Branch: "575"}, "branch: 575-server"},
		{"Branch without packages", []string{a100}, Policy{Branch: "620"}, "branch: 620-server"},
		{"Not offered by the archive", []string{a100}, Policy{Branch: "595", Offers: offers}, "branch: 595-server"},
		{"Installed, supported", []string{a100}, Policy{Installed: "595-server-open"}, ""},
		{"Installed, ended", []string{a100}, Policy{Installed: "535-server"}, ""},
		{"Installed, does not fit", []string{rtx5090}, Policy{Installed: "580-server"}, ""},
		{"Debian 13, DKMS", []string{a100}, Policy{System: "debian-13", Build: true}, "mode: dkms"},
		{"Debian 13, old card", []string{v100}, Policy{System: "debian-13", Build: true}, "mode: dkms"},
	}
}

// TestDecisions: the tables are the code's. -update writes them.
func TestDecisions(t *testing.T) {
	var b, page strings.Builder
	page.WriteString("| | cards | driver |\n|---|---|---|\n")
	b.WriteString("| | cards | the file says | driver | why, or what the message says |\n|---|---|---|---|---|\n")
	for _, d := range decisions() {
		var cards []string
		for _, id := range ids(t, d.gpus...) {
			name := id.String()
			if g, known := Lookup(id); known {
				name = g.Name
			}
			cards = append(cards, name)
		}
		driver, why, err := SelectDriverBranch(ids(t, d.gpus...), d.policy)
		name := "`" + driver.String() + "`"
		if err != nil {
			name, why = "refused", err.Error()
		}
		_, why, _ = cutReason(why)
		if len(cards) == 1 && reflect.DeepEqual(d.policy, Policy{}) {
			fmt.Fprintf(&page, "| %s | %s | %s |\n", d.what, strings.Join(cards, ", "), name)
		}
		file := d.file
		if file != "" {
			file = "`" + file + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.what, strings.Join(cards, ", "), file, name, why)
	}
	inPage(t, "testdata/decisions.md", "decisions", b.String())
	inPage(t, driversPage, "decisions", page.String())
}

// TestXidTable: the table of errors in docs/drivers.md is the code's.
func TestXidTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Xid | means | cause | the GPU works on | what to do |\n|---|---|---|---|---|\n")
	for _, x := range xids() {
		if x.do == "" {
			continue
		}
		number := strconv.Itoa(x.first)
		if x.last != 0 {
			number += "–" + strconv.Itoa(x.last)
		}
		works := "yes"
		if x.stops {
			works = "no"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", number, x.means, x.fault, works, strings.NewReplacer(powerCycle, "`node:cycle`", replace, "; again: replace the card").Replace(x.do))
	}
	inPage(t, driversPage, "xids", b.String())
}

const driversPage = "../docs/drivers.md"

// inPage compares a part of a page, between two comments, or writes it with -update.
func inPage(t *testing.T, page, part, want string) {
	t.Helper()
	begin, end := "<!-- "+part+" -->\n", "<!-- /"+part+" -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	have, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+want+end+after), 0o644))
		return
	}
	assert.Equal(t, want, have, "%s is not the code's: go test ./nvidia -update", page)
}

// cutReason takes the driver's name, which has a column of its own, off a reason.
func cutReason(why string) (name, rest string, found bool) {
	name, rest, found = strings.Cut(why, ": ")
	if !found || strings.Contains(name, " ") {
		return "", why, false
	}
	return name, rest, true
}

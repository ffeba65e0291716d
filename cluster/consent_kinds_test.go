package cluster_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askedAbout says for each step that says what it costs, by what says it, which row of
// docs/consent.md is an example of it, or which test asks about it where the table has none.
func askedAbout() map[string]string {
	return map[string]string{
		"costsOfRests":          "`cluster:down`",
		"costsOfMachine":        "`cluster:down`",
		"costsOfRelease":        "`node:remove`",
		"costsOfRetiring":       "`node:replace`",
		"costsOfOperatorDriver": ". TestAnotherDriverOfTheOperatorWaitsForPods",
		"costsOfDriver":         "another NVIDIA driver",
		"costsOfMember":         "another version of K3s",
		"costsOfRemoval":        "a machine that left the file: drained, destroyed with its disks",
		"costsOfLeftovers":      "a part of the platform that left the file",
		"costsOfMarks":          "a taint that evicts pods (`NoExecute`)",
		"costsOfDrain":          "`node:drain` of a node with work on it",
		"costsOfCycle":          "`node:cycle`",
		"costsOfRestore":        "../internal/session/backup TestPage",
		"costsOfDividing":       "GPUs divided in another way, or whole again (MIG)",
		"costsOfCards":          "fewer GPUs for a node",
		"costsOfDevices":        ". TestDevices",
		"costsOfChart":          "internal/parts TestCostsOfClaimsAndReplacements",
		"costsOfClaims":         "internal/parts TestCostsOfClaimsAndReplacements",
		"costsOfProvider":       ". TestLoginOfProvider",
		"costsOfReplaced":       "internal/parts TestCostsOfClaimsAndReplacements",
		"costsOfPackages":       ". TestUpgradeOfPackages",
		"costsOfPlugin":         "GPUs shared in another way, while programs compute through MPS",
		"costsOfVM":             "a VM's setting that counts from its next start (memory, cores, …)",
		"costs":                 "a network that may no longer mount the NFS server's folders (`allow`)",
		"costsOfLogin":          "a login on machines that know none of this run's keys (another token, another person)",
		"costsOfPush":           "../internal/session TestFleetPushAsks",
		"rebootCosts":           "../internal/session TestHostPrepNamesWhatARebootStops",
		"costsOfFiles":          ". TestTemplatesAreListedAndPruned",
		"costsOfTemplate":       ". TestTemplatesAreListedAndPruned",
	}
}

// Whoever gives a step a Costs says here where it is asked about: in a row of the table, made
// from an example, or in a test of its own.
func TestEveryCostIsAskedAbout(t *testing.T) {
	rows := map[string]bool{}
	for _, k := range kindsOfChange() {
		rows[k.what] = true
	}
	for by, where := range askedAbout() {
		if dir, test, ok := strings.Cut(where, " Test"); ok {
			assert.True(t, hasTest(t, dir, "Test"+test), "%s: no %s", by, where)
			continue
		}
		assert.True(t, rows[where], "%s: the table has no row %q", by, where)
	}
	said := costsSaid(t)
	require.NotEmpty(t, said)
	for _, by := range said {
		assert.Contains(t, askedAbout(), by, "a step has Costs of which nobody says where it is asked about")
	}
	for by := range askedAbout() {
		assert.Contains(t, said, by, "no step has it")
	}
}

// costsSaid are the functions behind the Costs of all steps of the package and its rooms.
func costsSaid(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	rooms, err := filepath.Glob("internal/*/*.go")
	require.NoError(t, err)
	hosts, err := filepath.Glob("../internal/hostprep/*.go")
	require.NoError(t, err)
	files = slices.Concat(files, rooms, hosts)
	name := regexp.MustCompile(`^(costs(Of\w+)?|\w+Costs)$`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if key, is := keyOf(kv, ok); !is || key != "Costs" {
				return true
			}
			found := false
			ast.Inspect(kv.Value, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && name.MatchString(id.Name) {
					out, found = append(out, id.Name), true
				}
				return true
			})
			assert.True(t, found, "%s: Costs is no function called costsOf… or …Costs, so nothing can be said of it", file)
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func keyOf(kv *ast.KeyValueExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	id, is := kv.Key.(*ast.Ident)
	if !is {
		return "", false
	}
	return id.Name, true
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "func "+name+"(t *testing.T)")
	})
}

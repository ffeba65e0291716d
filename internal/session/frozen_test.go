package session

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestFrozen compares what the commands say and ask of the world with testdata/frozen: for each
// example, and each whole file of package clusterfile's tests, the plan as JSON, what an up says in
// the simulator, and its requests. A change that only moves, deletes or renames code changes none
// of it.
//
// What runs beside each other comes in any order, so text is in the order of the steps' names,
// without progress, and requests are counted, and loops may ask some more.
func TestFrozen(t *testing.T) {
	for _, file := range wholeFiles(t, "../../examples/*/cluster.yaml", "../../cluster/clusterfile/testdata/good/*.yaml", "../../cluster/clusterfile/testdata/warn/*.yaml") {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := frozenSite(t, file.spec)
				defer w.close()
				out := "# plan\n" + w.plan(file.spec) + "\n# up\n"
				err := w.command(file.spec, Options{}, with(UpFlags{ChangeFlags: ChangeFlags{Yes: true}}, Up))
				out += w.plain(byStep(w.talk.String()+w.data.String())+fmt.Sprintln("exit code", code(err))) + "\n# requests\n"
				golden(t, "frozen/"+file.name+".txt", within(out+w.requests(), "testdata/frozen/"+file.name+".txt"))
			})
		})
	}
}

// TestFrozenPlans is the same for all other files of tests: a hash of each plan, on hosts that fit.
func TestFrozenPlans(t *testing.T) {
	var out strings.Builder
	for _, file := range wholeFiles(t, "../../cluster/testdata/reports/*/*.yaml", "../draft/testdata/*.yaml") {
		synctest.Test(t, func(t *testing.T) {
			w := frozenSite(t, file.spec)
			defer w.close()
			plan := w.plan(file.spec)
			fmt.Fprintf(&out, "%-24s %3d steps %s\n", file.name, strings.Count(plan, `{"step":`), hash(plan))
		})
	}
	golden(t, "frozen/plans.txt", out.String())
}

// wholeFile is a cluster file that can be read.
type wholeFile struct {
	name string
	spec *spec.Spec
}

var ofEnvironment = regexp.MustCompile(`env:([A-Z][A-Z0-9_]*)`)

func wholeFiles(t *testing.T, patterns ...string) (out []wholeFile) {
	t.Helper()
	charts, err := filepath.Abs("../../sim/lab/charts")
	require.NoError(t, err)
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range ofEnvironment.FindAllStringSubmatch(string(text), -1) {
				t.Setenv(m[1], "a-secret-of-the-environment")
			}
			spec, err := cluster.Load(file)
			if err != nil {
				continue // which other tests are about
			}
			spec.Platform.Charts.Folder, spec.Platform.Charts.Offline = charts, true
			name := strings.TrimSuffix(strings.TrimSuffix(file, ".yaml"), "/cluster")
			out = append(out, wholeFile{filepath.Base(filepath.Dir(name)) + "-" + filepath.Base(name), spec})
		}
	}
	return out
}

// frozenSite has hosts that fit a file, and the same key each time.
func frozenSite(t *testing.T, s *spec.Spec) *site {
	t.Helper()
	_, model := labmodel.ModelFor(labneeds.NeedsOf(s))
	w := &site{t: t, kube: &kubesim.Sim{}, dir: t.TempDir()}
	w.sim = pvesim.New(model, pvesim.Options{Kubernetes: w.kube})
	block, err := xssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, keyFile), pem.EncodeToMemory(block), 0o600))
	return w
}

func (w *site) plan(s *spec.Spec) string {
	err := w.command(s, Options{JSON: true}, Plan)
	talk := strings.SplitAfter(passing.ReplaceAllString(w.talk.String(), ""), "\n") // as it comes
	slices.Sort(talk)
	return w.plain(w.data.String() + strings.Join(talk, "") + fmt.Sprintln("exit code", code(err)))
}

func hash(s string) string { return fmt.Sprintf("%.6x", sha256.Sum256([]byte(s))) }

// What differs from run to run.
var (
	duration  = regexp.MustCompile(` in (<?[0-9.]+m?s|[0-9]+m[0-9.]+s)\b|\(<?[0-9.]+m?s\)`)
	madeUp    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{8}\b`)
	moment    = regexp.MustCompile(`\b2000-01-01 [0-9]{2}:[0-9]{2}:[0-9]{2}\b`) // of the bubble's clock, in a task's log
	taskID    = regexp.MustCompile(`UPID:[^/ ]*`)
	passing   = regexp.MustCompile(`(?m)^(checked [0-9]+ of |    what to do: |    patience: ).*\n`) // advice is said once, of many steps
	discovery = regexp.MustCompile(`(GET /apis/[^/]+)/v[^/]+$`)
	event     = regexp.MustCompile(`^[0-9]{2}:[0-9]{2}:[0-9]{2}  (\S*) +(.*\n)`)
	said      = regexp.MustCompile(`^(create: |change: |remove: |replace: |done|FAILED: |stopped|not started)`)
	times     = regexp.MustCompile(`^ *([0-9]+) ([A-Z]+ /.*)$`)
)

// plain is a text without what differs from run to run, and without this machine's paths.
func (w *site) plain(s string) string {
	root, _ := filepath.Abs("../..")
	s = strings.NewReplacer(w.dir, "DIR", root, "ROOT").Replace(s)
	s = moment.ReplaceAllString(s, "MOMENT")
	return duration.ReplaceAllString(taskID.ReplaceAllString(madeUp.ReplaceAllString(s, "#"), "UPID"), "")
}

// byStep puts the lines of a run in the order of their steps, without their times and without
// progress, which depends on them.
func byStep(text string) string {
	lines, step, keep := map[string][]string{}, "", true
	for line := range strings.Lines(passing.ReplaceAllString(text, "")) {
		if m := event.FindStringSubmatch(line); m != nil {
			step, keep = m[1], said.MatchString(m[2])
			line = fmt.Sprintf("%-22s %s", step, m[2])
		} else if !strings.HasPrefix(line, "    ") {
			step, keep = "~", true // before the steps, or after them
		}
		if before, all, ok := strings.Cut(line, "step they need failed: "); ok {
			line = before + strings.Join(slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(all), ", "))), ", ") + "\n"
		}
		if keep {
			lines[step] = append(lines[step], line)
		}
	}
	var out strings.Builder
	for _, step := range slices.Sorted(maps.Keys(lines)) {
		out.WriteString(strings.Join(lines[step], ""))
	}
	return out.String()
}

var (
	vmPath = regexp.MustCompile(`/qemu/([0-9]+)`)
	named  = regexp.MustCompile(`(/(?:nodes|storage|tasks|users|token|pci|namespaces)/)[^/?]+|(/content/).*`)
	object = regexp.MustCompile(`^(\S+ /(?:api|apis/[^/]+)/v[^/]+/(?:namespaces/\*/)?[a-z]+)/[^/?]+`)
)

// requests counts what was asked of Proxmox and Kubernetes. Of what changes something it has which
// requests there were: of a VM in the order in which each was first made.
func (w *site) requests() string {
	names := map[string]string{}
	for _, vm := range w.sim.VMs() {
		names[strconv.Itoa(vm.ID)] = vm.Name
	}
	count, changes := map[string]int{}, map[string][]string{}
	change := func(of, what string) {
		if what = w.plain(what); !slices.Contains(changes[of], what) {
			changes[of] = append(changes[of], what)
		}
	}
	for _, r := range w.sim.Requests() {
		path := vmPath.ReplaceAllString(r.Path, "/qemu/*")
		count[r.Method+" "+named.ReplaceAllString(path, "$1$2*")]++
		if m := vmPath.FindStringSubmatch(r.Path); m != nil && r.Mutating && names[m[1]] != "" {
			change("VM "+names[m[1]], r.Method+" "+path)
		}
	}
	for _, c := range w.kube.Clusters() {
		for _, r := range c.Requests() {
			if !strings.HasPrefix(r.Agent, "homelab") {
				continue
			}
			path, _, _ := strings.Cut(r.Path, "?")
			dry := map[bool]string{true: " (dry run)"}[r.DryRun]
			what := object.ReplaceAllString(r.Method+" "+named.ReplaceAllString(path, "$1*"), "$1/*")
			count[discovery.ReplaceAllString(what, "$1/*")+dry]++
			if r.Mutating() {
				change("Kubernetes", r.Method+" "+path)
			}
		}
	}
	slices.Sort(changes["Kubernetes"])
	var out strings.Builder
	for _, what := range slices.SortedFunc(maps.Keys(count), byPath) {
		fmt.Fprintf(&out, "%5d %s\n", count[what], what)
	}
	for _, of := range slices.Sorted(maps.Keys(changes)) {
		text := strings.Join(changes[of], "\n")
		fmt.Fprintf(&out, "%5d changes of %s: %s\n", len(changes[of]), of, hash(text))
		if os.Getenv("HOMELAB_FROZEN_CHANGES") != "" {
			w.t.Log(of + "\n" + text)
		}
	}
	return out.String()
}

// byPath compares requests by path, then by method.
func byPath(a, b string) int {
	am, ap, _ := strings.Cut(a, " ")
	bm, bp, _ := strings.Cut(b, " ")
	return cmp.Or(strings.Compare(ap, bp), strings.Compare(am, bm))
}

// within takes over how often something was asked, where the golden file has nearly as much: loops
// and retries depend on what comes first at the same moment. Machines are cloned in any order, so
// servers come up to seconds earlier or later. A step that takes a turn sees all nodes Ready at
// once, or waits for one round more: three lists of nodes, at the first look, 2 s later, and when it
// has the turn.
func within(got, file string) string {
	before, err := os.ReadFile(file)
	if err != nil {
		return got
	}
	was := map[string]int{}
	for line := range strings.Lines(string(before)) {
		if m := times.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			was[m[2]], _ = strconv.Atoi(m[1])
		}
	}
	lines := strings.Split(got, "\n")
	for i, line := range lines {
		if m := times.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			few := 2
			if strings.HasPrefix(m[2], "GET ") {
				few = 3
			}
			if b, ok := was[m[2]]; ok && max(n-b, b-n) <= few+b/8 {
				lines[i] = fmt.Sprintf("%5d %s", b, m[2])
			}
		}
	}
	return strings.Join(lines, "\n")
}

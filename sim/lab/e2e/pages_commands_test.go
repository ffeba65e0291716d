package e2e

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/pages"
)

// untypedRow says of commands why TestPages does not type them.
type untypedRow struct {
	line *regexp.Regexp
	why  string
}

// untyped are the commands of the pages that need what no test may have: a host of one's
// own, the internet, minutes. Where another test stands for them, it is named.
var untyped = []untypedRow{
	{regexp.MustCompile(`^go tool mage test(All)?$`), "it is what runs this test"},
	{regexp.MustCompile(`^go tool mage (bench|sim:faults|sim:guests|sim:conform|sim:coverage|sim:peers)`), "minutes; sim/conform has them, and .ci/run"},
	{regexp.MustCompile(`^go tool mage gpu:verify .*-burn=30m`), "half an hour; twoCommands has five seconds of it"},
	{regexp.MustCompile(`^go get `), "the internet; examples.TestBuildsOutside"},
	{regexp.MustCompile(`^go run .*/cmd/homelab@`), "the internet; TestAFolderOfOnesOwn does it without"},
	{regexp.MustCompile(`^go tool mage -compile `), "every test here runs what it makes"},
	{regexp.MustCompile(`\| tee up\.log$`), "typed without the pipe"},
	{regexp.MustCompile(`^go tool mage -d `), "a folder of one's own; TestAFolderOfOnesOwn"},
	{regexp.MustCompile(`^go run .*pvesim|^pvesim |^export PROXMOX_TOKEN_SECRET`), "sim/cmd/pvesim's tests"},
	{regexp.MustCompile(`^go tool mage host:prep|^go tool mage host:check -ssh=`), "a shell on a host; internal/session.TestHostPrepFromInstallerToToken"},
	{regexp.MustCompile(`^go tool mage host:role( \| ssh|.*-spec=trial)`), "a shell on a host; internal/session.TestHostRoleAsksTheHost"},
	{regexp.MustCompile(`^go tool mage host:trial|trial\.yaml$`), "a host of one's own; internal/session.TestHostTrial"},
	{regexp.MustCompile(`^go tool mage cluster:init($| -endpoint=192)`), "somebody who answers; internal/session.TestInitInterview, TestInitFromFlagsAlone"},
	{regexp.MustCompile(`^go tool mage cluster:(import -from=path/to|up -spec=try)`), "path/to is the reader's; TestImported"},
	{regexp.MustCompile(`^go tool mage fleet:(push|status)`), "a Git server; internal/session.TestFleetRenderAndPush"},
	{regexp.MustCompile(`^go tool mage fleet:lint -dir=path/to/repository`), "path/to is the reader's; typed with . and DIR"},
	{regexp.MustCompile(`^go tool mage node:replace -node=(NAME|cp1)`), "NAME is the reader's; typed with gpu1; internal/session.TestReplacePage"},
	{regexp.MustCompile(`^go tool mage images:mirror`), "registries, and the internet; internal/session.TestImagesMirror"},
	{regexp.MustCompile(`^go tool mage k3s:upgrade`), "minutes; internal/session.TestUpgradePage"},
	{regexp.MustCompile(` OLD\b|^helm list|^kubectl patch pv|^for pv in`), "an existing hub, and real pods"},
	{regexp.MustCompile(`^kubectl describe pvc -n NAMESPACE`), "NAMESPACE and NAME are the reader's"},
	{regexp.MustCompile(`^go tool mage (cluster:(backup|restore)|backup:verify) -`), "private keys, and a cluster to go back with; internal/session/backup.TestPage"},
	{regexp.MustCompile(`^go tool mage cluster:(certs|backup)( -rotate)?$`), "certificates of simulated servers, and recipients; internal/session/backup.TestPage"},
	{regexp.MustCompile(`^(qm|pvesh|pvesm|pveum|ceph) `), "a shell on a host"},
	{regexp.MustCompile(`^kubectl .*(workloads?|clusterqueues)`), "a cluster with queues; sim/lab/plane.TestAClassSharesEightCards"},
	{regexp.MustCompile(`^kubectl -n (logs port-forward|monitoring exec alertmanager)`), "a real pod of VictoriaLogs, of Alertmanager"},
	{regexp.MustCompile(`^kubectl (config set-|get configmap kube-root-ca)`), "a kubeconfig of one's own, and a browser; sim/lab/login.TestForeignClient reads such a token"},
	{regexp.MustCompile(`^sudo apt-get|^KUBECONFIG=\.homelab/real`), "real VMs in the lab; cluster.TestRealGuest"},
}

// shows compares each output on the pages with what its command printed: one time of all has to be like it.
func (r *reader) shows(t *testing.T) {
	for _, b := range pages.All(t) {
		if b.Typed() && assert.Contains(t, r.heard, b.Output, "%s:%d", b.Page, b.Line) && !slices.ContainsFunc(r.heard[b.Output], b.Shows) {
			pages.Compare(t, b.Page, b.Output, r.heard[b.Output][0], *update)
		}
	}
	for _, b := range pictures(t) {
		assert.True(t, slices.ContainsFunc(r.heard[b.Output], b.Shows), "docs/pictures/%s: record it again, docs/pictures/README.md: %s no longer prints\n%s", b.Page, b.Output, b.Text)
	}
}

var (
	frame   = regexp.MustCompile(`(?s)<g class="frame".*?</g>`)
	svgLine = regexp.MustCompile(`<text x="14.0"[^>]*>([^<]*)<`)
	banner  = regexp.MustCompile(`(?m)^(No cluster\.yaml here: |embedded lab: |charts: the lab's ).*\n`)
	differs = regexp.MustCompile(`(?m)^(embedded lab: .*|.* wk-gpu1 .*)$`)
)

// pictures are the ends of README's pictures of runs: what cluster:up says after all, and the outputs of
// two commands, but for the banner and the lines that name the node of the model.
func pictures(t *testing.T) (blocks []pages.Block) {
	t.Helper()
	last := func(file string) string {
		svg, err := os.ReadFile("../../../docs/pictures/" + file)
		require.NoError(t, err)
		frames, lines := frame.FindAllString(string(svg), -1), ""
		require.NotEmpty(t, frames, file)
		for _, m := range svgLine.FindAllStringSubmatch(frames[len(frames)-1], -1) {
			lines += html.UnescapeString(m[1]) + "\n"
		}
		return lines
	}
	_, next, found := strings.Cut(last("up.svg"), "\nNext:\n")
	require.True(t, found)
	blocks = append(blocks, pages.Block{Page: "up.svg", Output: "go tool mage cluster:up", Text: next})
	for part := range strings.SplitSeq(strings.TrimPrefix(last("models.svg"), "$ "), "\n$ ") {
		command, text, _ := strings.Cut(part, "\n")
		blocks = append(blocks, pages.Block{Page: "models.svg", Output: command, Text: differs.ReplaceAllString(text, "…")})
	}
	return blocks
}

type pageCommand struct{ page, line string }

var (
	isCommand = regexp.MustCompile(`^(go (tool|get|run|test) |kubectl |KUBECONFIG=|helm |qm |pvesh |pvesm |pveum |pvesim |export |ceph |sudo |for pv in )`)
	remark    = regexp.MustCompile(`\s+# .*$|\s{3,}\S.*$`)
	inline    = regexp.MustCompile("`(go tool mage [^`]+)`")
)

var namedTest = regexp.MustCompile(`([a-z/]+)\.(Test\w+)`)

// TestUntypedNameTests looks for the tests that stand for a command.
func TestUntypedNameTests(t *testing.T) {
	for _, u := range untyped {
		for _, m := range namedTest.FindAllStringSubmatch(u.why, -1) {
			files, err := filepath.Glob("../../../" + m[1] + "/*_test.go")
			require.NoError(t, err)
			found := false
			for _, f := range files {
				text, err := os.ReadFile(f)
				require.NoError(t, err)
				found = found || strings.Contains(string(text), "func "+m[2]+"(t *testing.T)")
			}
			assert.True(t, found, "%s: there is no %s in %s", u.line, m[2], m[1])
		}
	}
}

// pageCommands are the commands in blocks of README and docs, and those within their
// text that begin with go tool mage; without remarks.
func pageCommands(t *testing.T) []pageCommand {
	t.Helper()
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	var all []pageCommand
	for _, page := range append([]string{"../../../README.md"}, pages...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		fence, other := false, false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "```") {
				fence, other = !fence, !fence && line != "```" && line != "```sh"
				continue
			}
			block, is := strings.CutPrefix(line, "    ")
			if fence {
				block, is = line, !other
			}
			block = strings.TrimPrefix(strings.TrimSpace(block), "$ ")
			if is && isCommand.MatchString(block) {
				all = append(all, pageCommand{filepath.Base(page), remark.ReplaceAllString(block, "")})
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, pageCommand{filepath.Base(page), m[1]})
			}
		}
	}
	assert.Greater(t, len(all), 90, "the pages are read")
	return all
}

//go:build unix

// Windows has no named pipes in folders, and no /dev/zero.

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
)

// goodFiles is the folder of files that use every key.
const goodFiles = "../../cluster/clusterfile/testdata/good"

// leaf is a key of the schema that has a value of its own. In path, "*" is a name that the file
// gives and "0" the first entry of a list.
type leaf struct {
	path    []string
	numeric bool // an integer, a size or a duration
	text    bool
}

// leaves are all keys of cluster.yaml.
func leaves(t *testing.T) []leaf {
	t.Helper()
	data, err := os.ReadFile("../../cluster/clusterfile/schema.json")
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(data, &root))
	var out []leaf
	seen := map[string]bool{}
	var walk func(s any, path []string, in []string)
	walk = func(s any, path, in []string) {
		m, ok := s.(map[string]any)
		if !ok {
			return
		}
		if ref, ok := m["$ref"].(string); ok {
			name := filepath.Base(ref)
			if !slices.Contains(in, name) {
				walk(root["$defs"].(map[string]any)[name], path, append(slices.Clip(in), name))
			}
		}
		for _, of := range []string{"anyOf", "oneOf", "allOf"} {
			all, _ := m[of].([]any)
			for _, one := range all {
				walk(one, path, in)
			}
		}
		below := func(key string) []string { return append(slices.Clip(path), key) }
		properties, _ := m["properties"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			walk(properties[key], below(key), in)
		}
		if p, ok := m["patternProperties"].(map[string]any); ok {
			for _, one := range p {
				walk(one, below("*"), in)
			}
		}
		walk(m["additionalProperties"], below("*"), in)
		walk(m["items"], below("0"), in)
		switch kind := m["type"]; {
		case len(path) == 0 || seen[strings.Join(path, ".")+fmt.Sprint(kind)]:
		case kind == "integer" || kind == "number" || kind == "string":
			seen[strings.Join(path, ".")+fmt.Sprint(kind)] = true
			said, _ := json.Marshal(m)
			amount := strings.Contains(string(said), "iB") || strings.Contains(string(said), "(h|m") || strings.Contains(string(said), "[0-9]+(")
			out = append(out, leaf{path, kind != "string" || amount, kind == "string"})
		}
	}
	walk(root, nil, nil)
	return out
}

// set returns a copy of a document in which the value at path is another, made where it is
// missing. there says whether it was not.
func set(doc any, path []string, value any) (out any, there bool) {
	if len(path) == 0 {
		return value, doc != nil
	}
	if path[0] == "0" {
		list, _ := doc.([]any)
		list = slices.Clone(list)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0], there = set(list[0], path[1:], value)
		return list, there
	}
	m, _ := doc.(map[string]any)
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	key := path[0]
	if key == "*" {
		key = "x1"
		if keys := slices.Sorted(maps.Keys(m)); len(keys) > 0 {
			key = keys[0]
		}
	}
	m[key], there = set(m[key], path[1:], value)
	return m, there
}

// bases are the good files, as documents.
func bases(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(goodFiles + "/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string]map[string]any{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		doc := map[string]any{}
		require.NoError(t, yaml.Unmarshal(data, &doc))
		out[f] = doc
	}
	return out
}

// mutants calls do with a good file in which one key has another value: the first file that has
// the key, or else the fullest one.
func mutants(t *testing.T, name string, want func(leaf) []any, do func(what, file string, text []byte)) {
	t.Helper()
	all, cases := bases(t), share.Start(t, name)
	for _, l := range leaves(t) {
		file := goodFiles + "/full.yaml"
		for _, f := range slices.Sorted(maps.Keys(all)) {
			if _, there := set(all[f], l.path, nil); there {
				file = f
				break
			}
		}
		for _, value := range want(l) {
			if !cases.Next() {
				continue
			}
			doc, _ := set(all[file], l.path, value)
			text, err := yaml.Marshal(doc)
			require.NoError(t, err)
			do(fmt.Sprintf("%s: %s: %.60q", filepath.Base(file), strings.Join(l.path, "."), fmt.Sprint(value)), file, text)
		}
	}
}

// Numbers of a file size nothing before they were judged: no panic, no 300 MB,
// and no wall of text.
func TestNumbersAreJudgedFirst(t *testing.T) {
	numbers := []any{-1, 0, int64(1) << 31, int64(math.MaxInt64), json.RawMessage("99999999999999999999")}
	amounts := []any{"-1GiB", "0", "2147483648GiB", "9223372036854775807", "9223372036854775807TiB", "-1s", "2147483648h", "9223372036854775807ns"}
	count := 0
	mutants(t, "numbers", func(l leaf) []any {
		switch {
		case l.numeric && l.text:
			return amounts
		case l.numeric:
			return numbers
		}
		return nil
	}, func(what, file string, text []byte) {
		count++
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		want, err := cluster.Parse(file, text)
		if err == nil {
			_ = hostprep.RoleScript(want, proxmox.Version{Version: "9.0"}, "homelab@pve!x")
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20), what)
		short(t, what, err)
	})
	t.Logf("%d files", count)
}

// short checks that an error says where, in lines that fit on a screen.
func short(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		assert.Less(t, len(line), 800, "%s: %s", what, line[:min(len(line), 1000)])
	}
	assert.Less(t, len(err.Error()), 8<<10, what)
	var all spec.Problems
	if errors.As(err, &all) {
		for _, p := range all {
			assert.Positive(t, p.Line, "%s: %s", what, p.Error())
		}
	}
}

// hostile are words that a shell would take for more than a word.
func hostile() []any {
	return []any{"p;touch X", "$(touch X)", "`touch X`", "a'b", `a"b c\d`, "a\nb", "-rf", "a>b&c|d", "*", "~root #ä", "\u202ea\x1b[2Jb", strings.Repeat("a", 5000), "${IFS}x"}
}

// A word of a file stays one word in every command that homelab prints from it: a shell reads
// the same commands as from a good file, and expands nothing. Or the file is refused.
func TestWordsStayWords(t *testing.T) {
	shapes := map[string]bool{}
	for file := range bases(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := cluster.Parse(file, text)
		require.NoError(t, err)
		for _, s := range commands(t, file, want) {
			shapes[s] = true
		}
	}
	count, kept := 0, map[string]int{}
	mutants(t, "words", func(l leaf) []any {
		if !l.text {
			return nil
		}
		return hostile()
	}, func(what, file string, text []byte) {
		count++
		want, err := cluster.Parse(file, text)
		if err != nil {
			short(t, what, err)
			return
		}
		key := strings.SplitN(what, ": ", 3)[1]
		kept[key]++
		for _, s := range commands(t, what, want) {
			assert.True(t, shapes[s], "%s: another command: %s", what, s)
		}
	})
	t.Logf("%d files, %d shapes; these keys take some: %v", count, len(shapes), slices.Sorted(maps.Keys(kept)))
}

// commands are the shapes of all commands that homelab prints for a file.
func commands(t *testing.T, what string, want *spec.Spec) (out []string) {
	t.Helper()
	var scripts []string
	if want.HasProxmox() {
		scripts = append(scripts, hostprep.RoleScript(want, proxmox.Version{Version: "9.0"}, "homelab@pve!"+want.Name))
	}
	for _, script := range scripts {
		tree, err := syntax.NewParser().Parse(strings.NewReader(script), "")
		if !assert.NoError(t, err, "%s:\n%s", what, script) {
			continue
		}
		syntax.Walk(tree, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob, *syntax.BraceExp:
				start := n.Pos().Offset()
				assert.Fail(t, "the shell expands something", "%s: %s", what, script[start:min(len(script), int(start)+60)])
			case *syntax.CallExpr:
				out = append(out, shape(t, what, n))
			}
			return true
		})
	}
	return out
}

// shape is a command with its words left out, but for its name and its flags.
func shape(t *testing.T, what string, c *syntax.CallExpr) string {
	var b strings.Builder
	fixed := len(c.Args) > 0 && c.Args[0].Lit() != ""
	for i, w := range c.Args {
		switch lit := w.Lit(); {
		case i < 4 && fixed && lit != "" && strings.Trim(lit, "abcdefghijklmnopqrstuvwxyz") == "", strings.HasPrefix(lit, "--"):
			b.WriteString(lit + " ")
		default:
			assert.False(t, strings.ContainsAny(lit, "*?~"), "%s: the shell expands %s", what, lit)
			b.WriteString("W ")
		}
	}
	return strconv.Itoa(len(c.Args)) + " " + b.String()
}

// oddFiles are paths at which nobody should read to the end.
func oddFiles(t *testing.T) (paths []string) {
	dir := t.TempDir()
	pipe, sparse, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "sparse"), filepath.Join(dir, "loop")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	require.NoError(t, os.Truncate(sparse, 4<<30))
	require.NoError(t, os.Symlink("loop", loop))
	return []string{pipe, sparse, loop, dir, "/dev/zero"}
}

// Anything but a file that a person would name is refused in its place, or not read: no pipe, device,
// folder, loop of links or file of 4 GiB keeps a command.
func TestFilesAreJudgedFirst(t *testing.T) {
	odd, taken := oddFiles(t), map[string]bool{}
	mutants(t, "files", func(l leaf) (values []any) {
		if !l.text {
			return nil
		}
		for _, path := range odd {
			values = append(values, path, "file:"+path)
		}
		return append(values, "file:nowhere")
	}, func(what, file string, text []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		want, err := cluster.Parse(file, text)
		if err == nil && want.HasProxmox() {
			_, _ = want.Proxmox.TokenSecret.Resolve()
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20), what)
		short(t, what, err)
		if err == nil {
			taken[strings.SplitN(what, ": ", 3)[1]] = true
		} else {
			assert.NotContains(t, err.Error(), ": "+odd[2]+" does not exist", "it does: %s", what)
		}
	})
	t.Logf("these keys take some: %v", slices.Sorted(maps.Keys(taken)))
	for _, path := range odd[1:] { // a pipe is awaited: somebody may have meant -spec=<(…)
		_, err := cluster.Load(path)
		require.Error(t, err, path)
		short(t, path, err)
	}
}

// A mistake that 1,000 nodes have, or that stops the reader from knowing what is meant, is told
// in a few lines.
func TestMistakesAreTold(t *testing.T) {
	const head = "name: a\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\n"
	for text, want := range map[string]int{
		"pools:\n  cp: {role: server, count: 2000000000}\n":                                                         4,
		"proxmox: {endpoint: lab}\npools:\n  cp: {role: server, count: 1}\n  wk: {count: 1000}\n":                   52,
		"proxmox: {endpoint: lab}\npools:\n  cp: {role: server, address: 10.0.0.2}\npools:\n  wk: {count: 1}\n":     1,
		"proxmox: {endpoint: lab}\npools:\n  cp: {role: server, count: 1, count: 3, addresses: [10.0.0.11]}\n":      1,
		"pools:\n  cp: {role: server, count: 3, external: a@10.0.0.2}\n  wk: {count: 1000}\nk3s: {vip: 10.0.0.9}\n": 52,
	} {
		_, err := cluster.Parse("cluster.yaml", []byte(head+text))
		require.Error(t, err)
		short(t, text, err)
		assert.LessOrEqual(t, strings.Count(err.Error(), "\n")+1, want, "%s\n%s", text, err)
	}
}

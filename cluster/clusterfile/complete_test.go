package clusterfile

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// written is a file's Spec as one would write it in Go: what the file does not say is zero. The
// problems are those of its text.
func written(t *testing.T, file string) (s *spec.Spec, problems spec.Problems) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	c := decode.NewChecker("cluster.yaml")
	c.Dir = ""
	raw := &spec.Spec{}
	raw.File, raw.Dir = "cluster.yaml", filepath.Dir(file)
	if root := decode.ReadTree(c, data); root != nil {
		c.DecodeTree(root, raw, "")
	}
	unset(c, reflect.ValueOf(raw).Elem())
	errors.As(c.Err(), &problems)
	return raw, problems
}

// unset takes defaults out of a section.
func unset(c *decode.Checker, v reflect.Value) {
	for i := range v.NumField() {
		f, in := v.Type().Field(i), v.Field(i)
		switch tag := f.Tag.Get("yaml"); {
		case tag == "" || tag == "-":
		case strings.HasSuffix(tag, ",inline"):
			unset(c, in)
		case !c.IsSet(in.Addr().Interface()):
			in.SetZero()
		default:
			unsetIn(c, in)
		}
	}
}

func unsetIn(c *decode.Checker, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		unsetIn(c, v.Elem())
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			unsetIn(c, v.Index(i))
		}
	case decode.IsSection(v.Type()):
		unset(c, v)
	}
}

// A file and the same value in Go become the same Spec.
func TestCompleteIsLoad(t *testing.T) {
	for _, file := range goodFiles(t) {
		want, err := Load(file, platform.Check)
		require.NoError(t, err)
		s, _ := written(t, file)
		if nullUnsets(t, file) {
			continue
		}
		s.File = file
		require.NoError(t, Complete(s, platform.Check), file)
		wantFlat, got := flat(t, want), flat(t, s)
		for _, values := range []map[string]string{wantFlat, got} {
			for path := range values {
				if strings.HasPrefix(path, "Warnings") || strings.HasSuffix(path, "LabGuests.Place") {
					delete(values, path) // which have places
				}
			}
		}
		assert.Equal(t, wantFlat, got, file)
		require.NoError(t, Complete(s, platform.Check), "it is complete")
	}
}

// nullUnsets reports whether a file removes what is inherited, for which Go has no word.
func nullUnsets(t *testing.T, file string) bool {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Contains(string(data), ": null")
}

// places are what messages say of other places.
var places = regexp.MustCompile(`\bline \d+|\bthe same line|\b[A-Z][A-Za-z0-9]*(\[[^\]]*\]|\.[A-Z][A-Za-z0-9]*)+`)

// sayings are problems without places.
func sayings(problems spec.Problems) []string {
	var out []string
	for _, p := range problems {
		out = append(out, places.ReplaceAllString(p.What+"; "+p.Cure, "PLACE"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// onlyText are files whose mistake a Go value cannot have.
var onlyText = map[string]string{
	"endpoint-missing": "an empty text is one that is not there",
	"patience":         "0 is the default",
}

// Mistakes in a Go value are described like those in a file, with paths in place of lines. What the text
// alone can have wrong, as an unknown key or a value of another kind, is told of the text.
func TestCompleteRefusesWhatLoadRefuses(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	require.NoError(t, err)
	same := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = Parse(filepath.Join(filepath.Dir(file), "cluster.yaml"), data, platform.Check)
		var want, got spec.Problems
		require.ErrorAs(t, err, &want, file)
		s, inText := written(t, file)
		if len(inText) > 0 || onlyText[strings.TrimSuffix(filepath.Base(file), ".yaml")] != "" || nullUnsets(t, file) || strings.Contains(string(data), "hub:") {
			errors.As(Complete(s, platform.Check), &got) // whatever it says: it does not panic
			continue
		}
		assert.ErrorAs(t, Complete(s, platform.Check), &got, file)
		want = slices.DeleteFunc(want, func(p spec.Problem) bool { return strings.HasSuffix(p.What, " is 0") }) // which is the default
		assert.Equal(t, sayings(want), sayings(got), file)
		for _, p := range got {
			assert.NotEmpty(t, p.Path, file)
			assert.Zero(t, p.Line)
		}
		same++
	}
	assert.Greater(t, same, 170)
	t.Log(same, "of", len(files))
}

// The smallest values, and what one forgets: nothing is silently left out.
func TestCompleteSaysWhatIsMissing(t *testing.T) {
	s := &spec.Spec{}
	require.ErrorContains(t, Complete(s, platform.Check), "Name: the cluster has no name")
	s = &spec.Spec{
		Name: "mine", Proxmox: spec.Proxmox{Endpoint: spec.Lab}, Network: spec.Network{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1")},
		Nodes: []spec.Node{
			{Name: "cp1", Role: spec.Server, Address: netip.MustParsePrefix("10.0.0.11/24")},
			{Name: "gpu1", Address: netip.MustParsePrefix("10.0.0.21/24"), GPUs: spec.GPURequest{Count: 2}, OnBoot: spec.Off},
		},
	}
	twice := *s
	twice.Nodes = append(slices.Clone(s.Nodes), s.Nodes[0])
	require.ErrorContains(t, Complete(&twice, platform.Check), `Nodes[2]: "cp1" is here twice, first as Nodes[0]`)
	other := *s
	other.Nodes = slices.Clone(s.Nodes)
	other.Nodes[1].Address = netip.MustParsePrefix("10.0.0.21/16")
	require.ErrorContains(t, Complete(&other, platform.Check), "Nodes[1].Address: 10.0.0.21/16 is not in the node's network 10.0.0.0/24; write 10.0.0.21/24")
	other = *s
	other.Nodes = slices.Clone(s.Nodes)
	other.Nodes[1].External = true
	require.ErrorContains(t, Complete(&other, platform.Check), "Nodes[1].External: External follows from other fields; leave it out: SSH says it")

	require.NoError(t, Complete(s, platform.Check))
	gpu, _ := s.Node("gpu1")
	assert.Equal(t, spec.StackDevicePlugin, s.NVIDIA.Stack)
	assert.Equal(t, spec.DriverPrebuilt, s.NVIDIA.DriverMode)
	assert.Equal(t, "[nvidia.com/gpu=present:NoSchedule]", fmtOf(gpu.Taints))
	assert.False(t, gpu.OnBoot.IsOn())
	assert.True(t, gpu.GPUs.PCIe.IsOn())
}

func fmtOf(taints []spec.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, t.String())
	}
	return "[" + strings.Join(out, " ") + "]"
}

// TestChecksOfACompleteSpec: what is wrong with a Spec that is complete is at its paths in Go, whatever is asked about it.
func TestChecksOfACompleteSpec(t *testing.T) {
	s, err := Parse("cluster.yaml", []byte(`
name: t
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 1, addresses: [10.0.0.12]}}
k3s: {version: v1.36.5+k3s1, agent: {kubelet-arg: [max-pods=32]}}
charts: {values: {jupyterhub: {hub: {extra: {a: 1}}}}}
`))
	require.NoError(t, err)
	require.True(t, s.Completed())
	require.NoError(t, Complete(s, func(*spec.Spec, spec.Report) {}))
	var problems spec.Problems
	require.ErrorAs(t, Complete(s, func(s *spec.Spec, r spec.Report) {
		assert.True(t, r.Sound())
		r.Warn(nil, "only a warning", "")
		assert.True(t, r.Sound())
		r.Wrong(&s.Name, "the name", "")
		assert.False(t, r.Sound())
		r.Wrong(&s.Nodes[1].Cores, "cores", "write more")
		r.Wrong(&s.Nodes[1].Disks, "disks", "")
		r.Wrong(r.Entry(&s.K3s.AgentConfig, "kubelet-arg"), "kubelet", "")
		r.Wrong(r.Entry(&s.Platform.Charts.Values, "jupyterhub.hub.extra"), "values", "")
		r.Wrong(r.Key("network.prefix"), "prefix", "")
		r.Wrong(r.Key("storage.nonsense"), "whole", "")
	}), &problems)
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	assert.Equal(t, []string{"Spec: whole", "Name: the name", "Network.Prefix: prefix", `K3s.AgentConfig["kubelet-arg"]: kubelet`,
		`Platform.Charts.Values["jupyterhub"]["hub"]["extra"]: values`, "Nodes[1].Cores: cores; write more", "Nodes[1].Disks: disks"}, got)
}

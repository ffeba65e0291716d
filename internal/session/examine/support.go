package examine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed support.sh
var supportScript string

// Limits of an archive: a machine that does not answer is a line in it, and no entry is long.
const (
	askTime  = 30 * time.Second
	maxEntry = 1 << 20
)

// Support packs what a helper needs to find a failure, without secrets, into one file that only
// this user may read.
func Support(s *session.Session, ctx context.Context, f SupportFlags) error {
	now := time.Now().UTC()
	out := f.Out
	if out == "" {
		out = fmt.Sprintf("%s-support-%s.tar.gz", s.Spec.Name, now.Format("20060102-150405"))
	}
	if err := keep.Check(out, 0o600); err != nil {
		return err
	}
	a := &archive{redactor: newRedactor(s.Redact), at: now, top: strings.TrimSuffix(filepath.Base(out), ".tar.gz")}
	collect(ctx, s, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	data, err := a.pack()
	if err != nil {
		return err
	}
	if err := keep.WriteFile(out, data, 0o600); err != nil {
		return err
	}
	s.Printf("%s has %d files (%d KiB): %s.", out, len(a.files), len(data)>>10, strings.Join(a.names(), ", "))
	s.Printf("Known secrets, and what looks like one, are replaced by %s. Addresses and names are not: look at it before you give it away.",
		"[secret]")
	return nil
}

// collect asks everywhere at once.
func collect(ctx context.Context, s *session.Session, a *archive) {
	var wg sync.WaitGroup
	sources := sources(s)
	wg.Go(func() {
		e := doctor.Collect(ctx, sources)
		report := doctor.Diagnose(e)
		a.add("doctor.txt", printText(s, func(c *console.Console) { show(c, report) }))
		a.json("doctor.json", report)
		a.objects(e)
	})
	wg.Go(func() {
		var plan *converge.Plan
		err := s.Away
		if err == nil {
			plan, err = s.Cluster.Up().Plan(ctx)
		}
		if err != nil {
			a.add("plan.txt", []byte("the plan could not be made: "+err.Error()))
			return
		}
		a.add("plan.txt", printText(s, func(c *console.Console) { _ = c.Plan(plan) }))
	})
	for _, n := range s.Spec.Machines() {
		if n.Boot != nil {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			text, err := remote.Output(ctx, sources.Root(n.Name), "sh", "-c", supportScript)
			if err != nil {
				text = fmt.Appendf(text, "\nnot everything could be read: %v\n", err)
			}
			a.add("machines/"+n.Name+".txt", text)
		})
	}
	if text, err := os.ReadFile(s.Spec.File); err == nil {
		a.add("cluster.yaml", text)
	}
	a.add("versions.txt", fmt.Appendf(nil, "%s, %s/%s\ncluster %s, K3s %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, s.Spec.Name, s.Spec.K3s.Version))
	wg.Wait()
}

// printText returns what is printed on a console as plain text.
func printText(s *session.Session, show func(*console.Console)) []byte {
	var text bytes.Buffer
	show(&console.Console{Talk: &text, Data: &text, Program: s.Program})
	return text.Bytes()
}

// archive is a tar file in the making. It is safe for concurrent use.
type archive struct {
	*redactor
	at  time.Time
	top string // the folder in it

	mu    sync.Mutex
	files map[string][]byte
}

// add adds a file, without its secrets; of a long one, its end.
func (a *archive) add(name string, text []byte) {
	clean := a.redact(string(text)) // before it is cut, since half a secret is not recognised
	if over := len(clean) - maxEntry; over > 0 {
		clean = "…\n" + clean[over:]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		a.files = map[string][]byte{}
	}
	a.files[name] = []byte(clean)
}

func (a *archive) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		text = []byte(err.Error())
	}
	a.add(name, text)
}

// objects adds what was read from the API: of pods only what says how they are, since their
// environment may contain secrets.
func (a *archive) objects(e doctor.Evidence) {
	if e.API != nil {
		a.add("kubernetes/api.txt", []byte(e.API.Error()))
		return
	}
	a.json("kubernetes/nodes.json", e.Nodes)
	for kind, all := range e.Objects {
		var text bytes.Buffer
		for _, u := range all {
			part, err := yaml.Marshal(withoutSecrets(u).Object)
			if err != nil {
				part = []byte(err.Error())
			}
			text.WriteString("---\n")
			text.Write(part)
		}
		a.add("kubernetes/"+kind+".yaml", text.Bytes())
	}
}

// withoutSecrets leaves out of an object what may contain secrets and what nobody reads.
func withoutSecrets(u unstructured.Unstructured) unstructured.Unstructured {
	u = *u.DeepCopy()
	u.SetManagedFields(nil)
	u.SetAnnotations(nil)
	for _, list := range []string{"containers", "initContainers"} {
		all, _, _ := unstructured.NestedSlice(u.Object, "spec", list)
		for _, c := range all {
			if m, ok := c.(map[string]any); ok {
				for _, key := range []string{"env", "envFrom", "args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
					delete(m, key)
				}
			}
		}
		if all != nil {
			_ = unstructured.SetNestedSlice(u.Object, all, "spec", list)
		}
	}
	return u
}

func (a *archive) names() []string {
	var out []string
	for name := range a.files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// pack returns the archive, gzip-compressed.
func (a *archive) pack() ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, name := range a.names() {
		h := &tar.Header{Name: a.top + "/" + name, Mode: 0o600, Size: int64(len(a.files[name])), ModTime: a.at, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(a.files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return out.Bytes(), err
}

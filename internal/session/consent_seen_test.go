package session

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

// hesitant is a person who answers one question after another, and something happens before the
// first answer.
type hesitant struct {
	happens func()
	answers []string
	asked   int
}

func (h *hesitant) Read(b []byte) (int, error) {
	if h.asked == 0 {
		h.happens()
	}
	if h.asked++; h.asked > len(h.answers) {
		return 0, io.EOF
	}
	return copy(b, h.answers[h.asked-1]+"\n"), nil
}

// give adds a disk to a VM, as somebody does by hand.
func (w *site) give(name string) {
	id, value := w.sim.Token()
	pve, err := proxmox.Dial(w.t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: w.sim.Client()})
	require.NoError(w.t, err)
	require.NoError(w.t, pve.Call(w.t.Context(), "PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", w.vmid(name)), map[string]any{"scsi7": "vmdata:5"}, nil))
	w.sim.Settle()
}

// While a question stands, a disk is added to a machine that is to be destroyed, and a notebook
// starts on one that is to be restarted. The yes is not to these: without somebody to ask again the
// command ends with 4 and has done the rest, and on a terminal it asks about them alone.
func TestWhatComesWhileAQuestionStands(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(asking, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		vms := len(w.sim.VMs())
		gone := asking[:strings.Index(asking, "  gpu2:")]
		more := strings.Replace(asking, "gpu1: {address: 10.0.0.21,", "gpu1: {address: 10.0.0.21, memory: 24GiB,", 1)
		starts := func() { require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(teachersNotebook))) }
		start := len(w.sim.Requests())

		answers := &hesitant{happens: func() { w.give("gpu2") }, answers: []string{"gpu2"}}
		up := func(s *Session, ctx context.Context) error {
			s.keys = answers
			return Up(s, ctx, UpFlags{})
		}
		err := w.do(gone, Options{}, up)
		assert.Equal(t, refused, code(err))
		assert.Contains(t, w.talk.String(), "gpu2 is destroyed (no longer in the file), and with it disk scsi7 (5GiB), which the file does not name")
		assert.Contains(t, w.talk.String(), "\nThis was not shown before, and is not done yet:\ngpu2 is destroyed: no longer in the file\n    with  disk scsi7 (5GiB), which the file does not name\nGo on? Type gpu2: ")
		assert.Len(t, w.sim.VMs(), vms)

		answers = &hesitant{happens: starts, answers: []string{"y"}}
		err = w.do(more, Options{}, up)
		assert.Equal(t, refused, code(err))
		assert.Contains(t, w.talk.String(), "not done yet:\ngpu1 is stopped for 2 to 10 min: other memory\n    ends  the notebook of teacher\nGo on? [y/N] ")
		assert.Empty(t, w.changed(start)[1:], "the disk alone")

		// Verbs ask by the same rule.
		for _, verb := range []func(*Session, context.Context) error{
			func(s *Session, ctx context.Context) error {
				return NodeReplace(s, ctx, NodeReplaceFlags{NodeFlags: NodeFlags{Node: "gpu2"}, Force: true})
			},
			func(s *Session, ctx context.Context) error { return Down(s, ctx, DownFlags{}) },
		} {
			answers = &hesitant{happens: func() {
				require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(strings.NewReplacer("teacher", "late", "gpu1", "gpu2").Replace(teachersNotebook))))
			}, answers: []string{"gpu2"}}
			err = w.do(asking, Options{}, func(s *Session, ctx context.Context) error {
				s.keys = answers
				return verb(s, ctx)
			})
			assert.Equal(t, refused, code(err))
			assert.Empty(t, w.changed(start)[1:], "the disk alone")
		}
		assert.NotEmpty(t, w.kube.Clusters()[0].Names("pods"))

		answers = &hesitant{happens: func() { w.give("gpu1") }, answers: []string{"gpu2", "gpu2"}}
		require.NoError(t, w.do(gone, Options{}, up), "both are agreed to")
		assert.Len(t, w.sim.VMs(), vms-1)
	})
}

// teachersNotebook is one that starts late.
var teachersNotebook, _, _ = strings.Cut(adasNotebook, "---")

// A name of two things agrees to neither, in every form of the flag it is one.
func TestANodeThatIsCalledLikeAPart(t *testing.T) {
	node := converge.Cost{Machine: "monitoring", Object: "node", Kind: converge.CostDestroy}
	part := converge.Cost{Machine: "monitoring", Object: "part", Kind: converge.CostDestroy}
	for flag, want := range map[string]string{
		"monitoring":                      "-destroy=node:monitoring,part:monitoring",
		"node:monitoring":                 "-destroy=part:monitoring",
		"part:monitoring":                 "-destroy=node:monitoring",
		"node:monitoring,part:monitoring": "",
	} {
		inSite(t, func(t *testing.T, w *site) {
			first, second := false, false
			err := w.do(one, Options{}, func(s *Session, ctx context.Context) error {
				var g converge.Graph
				setting(&g, "node", &first, []converge.Cost{node})
				setting(&g, "part", &second, []converge.Cost{part})
				_, agreed, err := s.agree(ctx, &g, UpFlags{Destroy: flag}, Change{Question: "Go on?", narrow: true})
				if err != nil {
					return err
				}
				_, err = s.run(ctx, &g, agreed, false, false)
				return err
			})
			if want == "" {
				require.NoError(t, err)
				assert.True(t, first && second)
				return
			}
			assert.Equal(t, refused, code(err))
			require.ErrorContains(t, err, "add "+want+", or -yes")
			assert.False(t, first || second)
			ambiguous := "warning: -destroy=monitoring agrees to nothing: things of several kinds have that name; write which one is meant: -destroy=node:monitoring,part:monitoring"
			assert.Equal(t, flag == "monitoring", strings.Contains(w.talk.String(), ambiguous), w.talk.String())
		})
	}
}

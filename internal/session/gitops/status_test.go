package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/kube"
)

// TestFleetIsWaitedFor: an API that does not answer for a while ends no wait, what is wrong
// for good ends it at once, and when the time is over the last look stands.
func TestFleetIsWaitedFor(t *testing.T) {
	away := &kube.Error{Doing: "list bundles", Kind: kube.ErrUnreachable, Err: errors.New("connection refused")}
	forbidden := &kube.Error{Doing: "list bundles", Kind: kube.ErrForbidden, Err: errors.New("no")}
	behind := &fleet.State{Name: "home"}
	ready := &fleet.State{Name: "home", There: true, Bundles: []fleet.BundleState{{Name: "hub", State: fleet.StateReady}}}
	require.NotEmpty(t, behind.Diff())
	require.Empty(t, ready.Diff())
	type look struct {
		state *fleet.State
		err   error
	}
	for name, tt := range map[string]struct {
		looks []look // the last one forever
		limit time.Duration
		want  *fleet.State
		is    error
		after time.Duration
		said  string
	}{
		"one look":         {looks: []look{{nil, away}}, is: away},
		"away for a while": {limit: time.Minute, looks: []look{{behind, nil}, {nil, away}, {nil, away}, {ready, nil}}, want: ready, after: 6 * time.Second, said: "waiting: "},
		"forbidden":        {limit: time.Minute, looks: []look{{behind, nil}, {nil, forbidden}}, want: behind, is: forbidden, after: 2 * time.Second, said: "waiting: "},
		"time is over":     {limit: time.Minute, looks: []look{{behind, nil}}, want: behind, after: time.Minute, said: "waiting: "},
		"never there":      {limit: time.Minute, looks: []look{{nil, away}}, is: away, after: time.Minute, said: "waiting: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var talk bytes.Buffer
				s := console.New(true)
				s.Talk = &talk
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.limit)
					defer cancel()
				}
				i, start := 0, time.Now()
				got, err := waitState(ctx, s, tt.limit > 0, func(context.Context) (*fleet.State, error) {
					l := tt.looks[min(i, len(tt.looks)-1)]
					i++
					return l.state, l.err
				})
				assert.Equal(t, tt.after, time.Since(start))
				assert.Contains(t, talk.String(), tt.said)
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
					return
				}
				require.NoError(t, err)
				assert.Same(t, tt.want, got)
			})
		})
	}
}

// While Fleet is behind, the repository is asked again now and then, and Fleet's state is that of its newest commit; once it is
// there, the repository is left alone.
func TestPushesOfOthersAreFollowed(t *testing.T) {
	newest, asked, has := "a", 0, ""
	look := follow("a", func(context.Context) string { asked++; return newest }, func(_ context.Context, commit string) (*fleet.State, error) {
		if has == "" {
			return &fleet.State{}, nil
		}
		return &fleet.State{Commit: commit}, nil
	})
	looks := func(n int) string {
		commit := ""
		for range n {
			state, err := look(t.Context())
			require.NoError(t, err)
			commit = state.Commit
		}
		return commit
	}
	looks(askAgain - 1)
	require.Zero(t, asked)
	looks(2 * askAgain)
	require.Equal(t, 2, asked, "Fleet is behind")
	newest = "b"
	looks(askAgain)
	has = "all"
	require.Equal(t, "b", looks(1))
	before := asked
	require.Equal(t, "b", looks(10*askAgain))
	require.Equal(t, before, asked, "Fleet is there")
	_, err := follow("lost", nil, func(context.Context, string) (*fleet.State, error) { return nil, errors.New("away") })(t.Context())
	require.EqualError(t, err, "away")
}

// Whether everything is deployed is the exit code, and each bundle a line or an object.
func TestStateIsShown(t *testing.T) {
	ready := &fleet.State{Name: "home", There: true, Commit: "0123456789abcdef", Bundles: []fleet.BundleState{{Name: "hub", Cluster: "local", State: fleet.StateReady}}}
	for _, asJSON := range []bool{false, true} {
		var data, talk bytes.Buffer
		c := console.New(asJSON)
		c.Data, c.Talk = &data, &talk
		require.NoError(t, show(c, ready))
		assert.Contains(t, data.String(), "hub")
		assert.Equal(t, asJSON, json.Valid(data.Bytes()))
		assert.Contains(t, talk.String(), "Everything is deployed, of commit 0123456789ab.")
		var e *session.Error
		require.ErrorAs(t, show(c, &fleet.State{Name: "home"}), &e)
		assert.Equal(t, 2, e.Code)
		assert.ErrorContains(t, e, "not everything is deployed: ")
		if c.Data = (broken{}); asJSON {
			require.ErrorIs(t, show(c, ready), io.ErrClosedPipe)
		}
	}
}

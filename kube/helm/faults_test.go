package helm_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// stage is a step of a release's life: what is there before it, and what it is.
type stage struct {
	before []chart.Release
	do     func(ctx context.Context, c *helm.Client) error
	want   chart.Release // what is there then; without a version: nothing
	kinds  []faults.Kind
}

func stages() map[string]stage {
	release := func(version, text string) chart.Release {
		return chart.Release{Name: "t", Namespace: "test", Chart: "tiny", Version: version, Values: map[string]any{"text": text}, Timeout: time.Minute}
	}
	one, two := release("1.0.0", "hello"), release("1.1.0", "bye")
	apply := func(r chart.Release) func(context.Context, *helm.Client) error {
		return func(ctx context.Context, c *helm.Client) error { return c.Apply(ctx, r) }
	}
	look, no := []faults.Kind{faults.Lost}, []faults.Kind{faults.Refused}
	return map[string]stage{
		"install":   {do: apply(one), want: one, kinds: []faults.Kind{faults.Unheard, faults.Refused}},
		"upgrade":   {before: []chart.Release{one}, do: apply(two), want: two, kinds: no},
		"uninstall": {before: []chart.Release{one}, do: func(ctx context.Context, c *helm.Client) error { return c.Uninstall(ctx, "test", "t") }, kinds: no},
		"look":      {before: []chart.Release{one}, do: func(ctx context.Context, c *helm.Client) error { _, err := c.Observe(ctx, one); return err }, want: one, kinds: look},
	}
}

// differs says how what is there differs from what should be.
func (s stage) differs(t *testing.T, c *helm.Client) string {
	t.Helper()
	if s.want.Version == "" {
		have, err := c.Observe(t.Context(), chart.Release{Name: "t", Namespace: "test", Chart: "tiny", Version: "1.0.0"})
		require.NoError(t, err)
		if have.Status != "" {
			return "it is still there"
		}
		return ""
	}
	have, err := c.Observe(t.Context(), s.want)
	require.NoError(t, err)
	return have.Diff().String()
}

// asBefore says what is left of a step that was undone: the release is as it was before,
// but for the definitions of crds folders.
func (s stage) asBefore(t *testing.T, c *helm.Client, err error) string {
	t.Helper()
	var failed *helm.FailedError
	if !errors.As(err, &failed) || failed.Undo != nil {
		return ""
	}
	was := stage{}
	if len(s.before) > 0 {
		was.want = s.before[len(s.before)-1]
	}
	return strings.Join(slices.DeleteFunc(strings.Split(was.differs(t, c), "; "), func(d string) bool {
		return strings.HasPrefix(d, "customresourcedefinition/")
	}), "; ")
}

// TestEveryRequestFails: whatever request fails, in whatever way, a release is up to date or
// the error says why not; a release that was rolled back is unchanged, and the next attempt
// succeeds.
func TestEveryRequestFails(t *testing.T) {
	answer := faults.Answer{Status: http.StatusForbidden, Type: "application/json",
		Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"` + faults.ErrInjected.Error() + `"}`}
	for name, s := range stages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults.Each(t, s.kinds, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				synctest.Test(t, func(t *testing.T) {
					connect := form(t)
					c := helm.NewClient(connect(nil), local)
					for _, r := range s.before {
						require.NoError(t, c.Apply(t.Context(), r))
					}
					tried := helm.NewClient(connect(func(next http.RoundTripper) http.RoundTripper { return f.RoundTripper(next, answer) }), local)
					use(t, faults.Case{
						Do:      func() error { return s.do(t.Context(), tried) },
						Done:    func() string { return s.differs(t, c) },
						Failed:  func(err error) string { return s.asBefore(t, c, err) },
						Patient: true, // an API server that is away is waited for
					})
				})
			})
		})
	}
}

package parts

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
)

// repository is a chart repository that answers as one says.
type repository func(*http.Request) (*http.Response, error)

func (r repository) RoundTrip(q *http.Request) (*http.Response, error) { return r(q) }

const external = `
name: ext
k3s: {version: v1.36.3+k3s1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes: {a: {role: server, external: root@10.0.0.2}}
storage: {nfs: "10.0.0.9:/export"}
`

// A chart repository that is away is waited for; what it then says for good ends the wait.
func TestAChartRepositoryThatIsAwayForAWhile(t *testing.T) {
	for what, away := range map[string]func(*http.Request) (*http.Response, error){
		"refuses": func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		},
		"is broken": func(q *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Body: http.NoBody, Request: q}, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			spec, err := clusterfile.Parse("cluster.yaml", []byte(external))
			require.NoError(t, err)
			s := New(Config{Spec: spec, Make: func() ([]addon.Recipe, error) { return platform.Pieces(spec, true) }, Charts: helm.Source{Cache: t.TempDir(), Wrap: func(http.RoundTripper) http.RoundTripper {
				return repository(func(q *http.Request) (*http.Response, error) {
					if time.Since(start) < 20*time.Second {
						return away(q)
					}
					return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody, Request: q}, nil
				})
			}}})
			g := &converge.Graph{}
			g.Add(s.chartsStep())
			report, err := g.Run(t.Context(), nil)
			require.ErrorContains(t, err, "404 Not Found", what)
			assert.Equal(t, 1, strings.Count(report.Steps[0].Err.Error(), "404"), what)
			assert.NotContains(t, err.Error(), "images:mirror", "there is no mirror")
			assert.InDelta(t, 20, time.Since(start).Seconds(), 5, what)
		})
	}
}

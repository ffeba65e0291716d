package verify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/kube"
)

// Check is one thing that people expect of a part.
type Check struct {
	Part string
	Name string // what is tried, e.g. "a line of a pod is found"
	// Try returns what was seen, in a few words; or why the part does not do it, and what to do. [UncheckedError] says that it
	// could not be tried.
	Try func(context.Context, Cluster) (seen string, err error)
}

// UncheckedError says why something could not be tried.
type UncheckedError string

func (u UncheckedError) Error() string { return string(u) }

// Cluster is how checks reach a cluster.
type Cluster struct {
	Kube *kube.Client
	// Dial reaches the network of the cluster's pages; nil: directly.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Roots are the authorities of the pages' certificates; nil: the system's.
	Roots       *x509.CertPool
	Tolerations []corev1.Toleration // of the nodes' taints
	Image       string              // of small pods: any with a shell
}

// Result is the outcome of a check.
type Result struct {
	Check
	Seen string
	Err  error // nil: it passed
	Took time.Duration
}

// Passed reports whether the part did what is expected.
func (r Result) Passed() bool { return r.Err == nil }

// UncheckedReason says why it was not tried; empty: it was.
func (r Result) UncheckedReason() string {
	var why UncheckedError
	if errors.As(r.Err, &why) {
		return why.Error()
	}
	return ""
}

// limit is how long one check may take.
const limit = 3 * time.Minute

// Run tries all checks side by side, and returns when each has ended.
func Run(ctx context.Context, c Cluster, checks []Check) []Result {
	out := make([]Result, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			began := time.Now()
			limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
			defer cancel()
			out[i] = Result{Check: check}
			out[i].Seen, out[i].Err = check.Try(limited, c)
			out[i].Took = time.Since(began)
		})
	}
	all.Wait()
	return out
}

// maxAnswer is the most that is read of an answer, in bytes.
const maxAnswer = 16 << 20

// Ask sends a request to a pod behind a Service, and returns the answer. One that is an error is an error.
func (c Cluster) Ask(ctx context.Context, r kube.ServiceRequest) ([]byte, error) {
	res, err := c.Kube.AskService(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		const most = 200
		text := strings.TrimSpace(string(said))
		err = fmt.Errorf("service %s/%s answers %s with %d %s: %s", r.Namespace, r.Service, r.Path, res.StatusCode, http.StatusText(res.StatusCode), text[:min(most, len(text))])
	}
	return said, err
}

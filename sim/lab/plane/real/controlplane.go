package real

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// startTimeout is how long a control plane may take to be ready. On two cores it takes 4 s,
// and some 20 s during a build.
const startTimeout = 3 * time.Minute

// controlPlane is one running set of components with its own CA and its own data.
type controlPlane struct {
	plane.Networks
	dir, logs, exe string
	log            *slog.Logger
	saved          *guest.PlaneSaved // what it begins with; nil: nothing
	reads          bool              // only etcd and the API server run, to be read

	ca          *authority
	admin       pair
	etcd, peer  int // ports
	port        int // of the API server
	egress      *proxy
	config      *rest.Config
	client      *kubernetes.Clientset
	adminConfig string // path of a kubeconfig for the components

	mu      sync.Mutex
	procs   []*process
	issuer  []string // the API server's arguments about an issuer of tokens
	stopped bool
}

// startControlPlane starts a control plane in dir. If another program takes a port just before
// a component listens, it retries with other ports.
func startControlPlane(ctx context.Context, cp *controlPlane) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	const attempts = 4
	for attempt := 1; ; attempt++ {
		err := cp.start(ctx)
		if err == nil {
			return nil
		}
		cp.Stop()
		var ended *exitError
		if attempt == attempts || !errors.As(err, &ended) || !ended.portTaken() {
			return fmt.Errorf("the control plane did not start: %w", err)
		}
		cp.log.Info("a port was taken in the meantime; retrying with others", "component", ended.Component)
	}
}

func (cp *controlPlane) start(ctx context.Context) error {
	cp.mu.Lock()
	cp.stopped, cp.procs = false, nil
	cp.mu.Unlock()
	if err := cp.prepare(ctx); err != nil {
		return err
	}
	// The API server retries until etcd answers, so both start at once.
	if err := cp.spawnAll(ctx, Etcd, APIServer); err != nil {
		return err
	}
	if err := cp.until(ctx, "the API server", cp.readyz); err != nil || cp.reads {
		return err
	}
	if err := cp.silence(ctx); err != nil {
		return err
	}
	if err := cp.spawnAll(ctx, ControllerManager, Scheduler); err != nil {
		return err
	}
	// A pod before its namespace's ServiceAccount is refused.
	return cp.until(ctx, "the service account default", func(ctx context.Context) error {
		for _, ns := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if _, err := cp.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare makes certificates, files and clients for a start with fresh ports.
func (cp *controlPlane) prepare(ctx context.Context) (err error) {
	if err := os.RemoveAll(cp.dir); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return err
	}
	cp.etcd, cp.peer, cp.port = ports[0], ports[1], ports[2]
	if cp.ca, err = cp.authority(); err != nil {
		return err
	}
	if cp.admin, err = cp.ca.issue("system:admin", "system:masters"); err != nil {
		return err
	}
	if err := cp.serve(nil); err != nil {
		return err
	}
	if _, _, err := cp.ca.issueFile("etcd", "etcd", "", "127.0.0.1", "localhost"); err != nil {
		return err
	}
	if err := cp.prepareState(); err != nil {
		return err
	}
	admin, err := kubeconfig(cp.url(), cp.ca.pem, cp.admin)
	if err != nil {
		return err
	}
	cp.adminConfig = filepath.Join(cp.dir, "admin.kubeconfig")
	if err := writeAtomic(cp.adminConfig, admin); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if cp.egress, err = newProxy(ctx, cp.ca); err != nil {
		return err
	}
	if err := cp.writeEgress(); err != nil {
		return err
	}
	cp.config = restConfig(cp.url(), cp.ca.pem, cp.admin)
	cp.client, err = kubernetes.NewForConfig(cp.config)
	return err
}

// serve adds sans to the API server's certificate. The API server watches the file and uses
// the new one within milliseconds.
func (cp *controlPlane) serve(sans []string) error {
	// The Service kubernetes has the first address of the range.
	service := cp.Services.Masked().Addr().Next().String()
	names := []string{"127.0.0.1", "localhost", service, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc." + cp.Domain}
	for _, san := range sans {
		if !slices.Contains(names, san) {
			names = append(names, san)
		}
	}
	_, _, err := cp.ca.issueFile("apiserver", "k3s", "", names...)
	return err
}

func (cp *controlPlane) url() string { return "https://" + cp.address() }

func (cp *controlPlane) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(cp.port))
}

func (cp *controlPlane) readyz(ctx context.Context) error {
	r := cp.client.Discovery().RESTClient().Get().AbsPath("/readyz")
	if cp.reads { // a Secret that cannot be decrypted is told when it is read
		r = r.Param("exclude", "informer-sync")
	}
	_, err := r.DoRaw(ctx)
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return fmt.Errorf("not ready yet: %w", err)
	}
	return err
}

func (cp *controlPlane) until(ctx context.Context, what string, ready func(context.Context) error) error {
	return until(ctx, what, ready, cp.processes()...)
}

func (cp *controlPlane) processes() []*process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return slices.Clone(cp.procs)
}

func (cp *controlPlane) spawnAll(ctx context.Context, names ...string) error {
	for _, which := range names {
		if _, err := cp.spawn(ctx, which); err != nil {
			return err
		}
	}
	return nil
}

func (cp *controlPlane) spawn(ctx context.Context, which string) (*process, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return nil, fmt.Errorf("%s: the control plane is being stopped", which)
	}
	var more []string
	if which == APIServer {
		more = cp.egress.environment()
	}
	p, err := spawn(ctx, cp.exe, which, filepath.Join(cp.logs, which+".log"), more, cp.args(which)...)
	if err != nil {
		return nil, err
	}
	cp.procs = slices.DeleteFunc(cp.procs, func(old *process) bool { return old.name == which })
	cp.procs = append(cp.procs, p)
	return p, nil
}

// Watch restarts a component that ends by itself, and returns when ctx ends. None should, but
// in a long-running lab one may be killed because memory ran out.
func (cp *controlPlane) Watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range cp.processes() {
		all.Go(func() {
			for p != nil {
				p = cp.revive(ctx, p)
			}
		})
	}
	all.Wait()
}

// revive waits for the end of p and returns its replacement; nil at the end of the control
// plane.
func (cp *controlPlane) revive(ctx context.Context, p *process) *process {
	select {
	case <-ctx.Done():
		return nil
	case <-p.done:
	}
	if converge.Pause(ctx, time.Second) != nil {
		return nil
	}
	cp.log.Warn("a component ended and is started again", "component", p.name, "why", p.ended())
	again, err := cp.spawn(ctx, p.name)
	if err != nil {
		return nil
	}
	return again
}

// Stop kills all components and deletes their data.
func (cp *controlPlane) Stop() {
	cp.mu.Lock()
	procs, exit := cp.procs, cp.egress
	cp.stopped, cp.procs, cp.egress = true, nil, nil
	cp.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range procs {
		all.Go(p.kill)
	}
	all.Wait()
	if exit != nil {
		exit.close()
	}
	_ = os.RemoveAll(cp.dir)
}

// freePorts finds n different loopback ports that nobody listens on.
func freePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("a free port: %w", err)
		}
		defer l.Close() // all at the end, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

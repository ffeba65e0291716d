package harvestersim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// Config is a Harvester cluster.
type Config struct {
	Version    string           // default v1.8.0
	Network    *guest.Network   // that machines are plugged into; nil: one of its own
	Internet   guest.Internet   // that images and guests download from; nil: guest.DefaultInternet
	Kubernetes guest.Kubernetes // for guests that form a cluster
	Speed      float64          // how many times faster than life; 0 is 1
	Server     string           // of the kubeconfig; default https://harvester:6443
	NoAddon    bool             // PCI devices are not offered
}

// Sim is a Harvester cluster. It is safe for concurrent use.
type Sim struct {
	cfg   Config
	plane *kubesim.Cluster
	store
	stop  chan struct{}
	ended sync.WaitGroup

	mu       sync.Mutex
	hardware map[string]PCI         // by the PCIDevice's name
	images   map[string]*guest.Disk // what was imported, by the image's UID
	disks    map[string]*guest.Disk // of volumes, by their UID
	running  map[string]*instance   // by namespace and name
	users    map[string]string      // the machine that a device is allocated to
	attached map[string]string      // the machine that a volume is attached to
}

const (
	tick      = time.Second
	namespace = "harvester-system"
)

// New makes a Harvester cluster without nodes. It outlives ctx, whose values it keeps: call Close.
func New(ctx context.Context, cfg Config) (*Sim, error) {
	cfg.Version = cmp.Or(cfg.Version, "v1.8.0")
	cfg.Server = cmp.Or(cfg.Server, "https://harvester:6443")
	if cfg.Network == nil {
		cfg.Network = &guest.Network{}
	}
	if cfg.Internet == nil {
		cfg.Internet = guest.DefaultInternet()
	}
	if cfg.Speed <= 0 {
		cfg.Speed = 1
	}
	s := &Sim{cfg: cfg, hardware: map[string]PCI{}, images: map[string]*guest.Disk{}, disks: map[string]*guest.Disk{},
		running: map[string]*instance{}, users: map[string]string{}, attached: map[string]string{}}
	var err error
	s.plane, err = kubesim.NewPlane(ctx, guest.PlaneConfig{TLSSANs: []string{"harvester"}, Version: "v1.34.2+rke2r1"},
		kubesim.Backends{Kubelet: s.kubelet, Admit: s.admit, AdmitChange: s.admitChange})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.plane.Kubeconfig("https://harvester:6443"))
	if err != nil {
		return nil, fmt.Errorf("harvestersim: %w", err)
	}
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.plane.Dial(ctx) }
	config.QPS = -1
	if s.api, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("harvestersim: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.populate(ctx); err != nil {
		return nil, err
	}
	s.stop = make(chan struct{})
	s.ended.Go(func() { s.loop(ctx) })
	return s, nil
}

// Close ends the cluster and its machines.
func (s *Sim) Close() error {
	close(s.stop)
	s.ended.Wait()
	s.mu.Lock()
	all := s.running
	s.running = map[string]*instance{}
	s.mu.Unlock()
	for _, i := range all {
		i.machine.Kill()
	}
	return s.plane.Close()
}

// Kubeconfig is an administrator's.
func (s *Sim) Kubeconfig() []byte { return s.plane.Kubeconfig(s.cfg.Server) }

// Dial connects to the API server.
func (s *Sim) Dial(ctx context.Context) (net.Conn, error) { return s.plane.Dial(ctx) }

// Network is the one that machines are plugged into.
func (s *Sim) Network() *guest.Network { return s.cfg.Network }

// Plane is the API, for tests that look at its objects and its requests.
func (s *Sim) Plane() *kubesim.Cluster { return s.plane }

// Machine returns the guest of a machine that runs, or nil.
func (s *Sim) Machine(namespace, name string) *guest.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.running[namespace+"/"+name]; i != nil {
		return i.machine
	}
	return nil
}

// loop looks at everything again and again, as controllers do.
func (s *Sim) loop(ctx context.Context) {
	timer := time.NewTicker(time.Duration(float64(tick) / s.cfg.Speed))
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
			s.reconcile(ctx)
		}
	}
}

// The kinds that the controller works with.
func gvr(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

func vms() schema.GroupVersionResource { return gvr("kubevirt.io", "v1", "virtualmachines") }
func instances() schema.GroupVersionResource {
	return gvr("kubevirt.io", "v1", "virtualmachineinstances")
}
func images() schema.GroupVersionResource {
	return gvr("harvesterhci.io", "v1beta1", "virtualmachineimages")
}
func devices() schema.GroupVersionResource {
	return gvr("devices.harvesterhci.io", "v1beta1", "pcidevices")
}
func claims() schema.GroupVersionResource {
	return gvr("devices.harvesterhci.io", "v1beta1", "pcideviceclaims")
}
func networks() schema.GroupVersionResource {
	return gvr("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
}
func settings() schema.GroupVersionResource { return gvr("harvesterhci.io", "v1beta1", "settings") }
func addons() schema.GroupVersionResource   { return gvr("harvesterhci.io", "v1beta1", "addons") }
func volumes() schema.GroupVersionResource  { return gvr("", "v1", "persistentvolumeclaims") }
func storages() schema.GroupVersionResource { return gvr("", "v1", "persistentvolumes") }
func classes() schema.GroupVersionResource {
	return gvr("storage.k8s.io", "v1", "storageclasses")
}
func pods() schema.GroupVersionResource       { return gvr("", "v1", "pods") }
func nodes() schema.GroupVersionResource      { return gvr("", "v1", "nodes") }
func secrets() schema.GroupVersionResource    { return gvr("", "v1", "secrets") }
func namespaces() schema.GroupVersionResource { return gvr("", "v1", "namespaces") }

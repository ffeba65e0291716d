package session

import (
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/kube"
)

// openHarvester connects to the Harvester of the file with its kubeconfig.
func openHarvester(s *Session, b *cluster.Backend) error {
	h := s.Spec.Harvester
	config, err := os.ReadFile(h.Kubeconfig)
	if err != nil {
		return fmt.Errorf("harvester.kubeconfig: %w", err)
	}
	client, err := kube.New(kube.Config{Kubeconfig: config, Wrap: s.wrap})
	if err != nil {
		return fmt.Errorf("harvester.kubeconfig: %s: %w", h.Kubeconfig, err)
	}
	b.Harvester = harvester.New(client, h.Namespace, s.Spec.Name)
	return nil
}

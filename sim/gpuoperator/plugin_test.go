package gpuoperator

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReplicas(t *testing.T) {
	for config, want := range map[string]int{
		"version: v1\nflags: {migStrategy: none}\n": 1,
		"sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}": 4,
		"sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}":                                           2,
		"sharing: {mps: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}":                                    1,
		"sharing: [": 1,
	} {
		times, _ := replicas(config)
		assert.Equal(t, want, times, config)
	}
	_, strategy := replicas("version: v1\nflags: {migStrategy: mixed}\n")
	assert.Equal(t, "mixed", strategy)
}

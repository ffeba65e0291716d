// Package gpuoperator says what NVIDIA's GPU operator creates from its ClusterPolicy, for
// simulated clusters.
//
// Names, images, runtime classes, tolerations and variables are those of NVIDIA/gpu-operator v26.7.0
// (assets, controllers/object_controls.go). Node feature discovery is left out: the pods run on
// nodes with the label nvidia.com/gpu.present, which homelab sets where it put cards.
package gpuoperator

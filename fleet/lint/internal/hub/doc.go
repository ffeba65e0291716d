// Package hub finds mistakes in the values of JupyterHub's chart: Python that does not compile,
// and settings that exclude each other. It follows the sources of zero-to-jupyterhub 4.4,
// JupyterHub 5 and KubeSpawner 7.
package hub

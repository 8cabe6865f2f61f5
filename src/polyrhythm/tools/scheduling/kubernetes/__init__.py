"""Carries decisions out on Kubernetes: pods wait behind a gate until one decides where, and kube-scheduler validates and binds."""

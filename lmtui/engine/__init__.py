"""The engine: runs turns and emits events; it knows nothing of screens, servers or disks."""

"""Pictures of sweeps and reports. Plots know tables and reports, never the simulator."""

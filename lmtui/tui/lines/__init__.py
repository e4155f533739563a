"""Line widgets: every unbounded surface is drawn line by line, never as one widget per item."""

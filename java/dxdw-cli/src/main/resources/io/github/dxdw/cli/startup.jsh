import io.github.dxdw.*;
import java.lang.foreign.*;
import static io.github.dxdw.cli.ShellTensors.*;
Arena arena = Arena.ofAuto();

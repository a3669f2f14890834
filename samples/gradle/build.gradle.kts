// On the class path, with the natives of one platform: gradle run.
plugins {
  application
}

repositories {
  mavenLocal()
  mavenCentral()
}

dependencies {
  implementation(platform("io.github.dxdw:dxdw-bom:0.1.0-SNAPSHOT"))
  implementation("io.github.dxdw:dxdw")
  runtimeOnly("io.github.dxdw:dxdw-natives::linux-x86_64")
}

tasks.withType<JavaCompile>().configureEach {
  options.release = 22
}

sourceSets {
  main {
    java.setSrcDirs(listOf("../src"))
  }
}

application {
  mainClass = "sample.WeightGradient"
  applicationDefaultJvmArgs = listOf("--enable-native-access=ALL-UNNAMED")
}
